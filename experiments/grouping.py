"""Many dotted names in few words: blocks.4-11.* for all that there is of eight blocks."""

from collections.abc import Collection, Iterator, Mapping, Sequence

DIGITS = 6  # of a number that counts as one; a stranger's name may have more


def grouped(reasons: Mapping[str, str], every: Collection[str]) -> dict[str, str]:
    """{name: reason} with fewer names: a scope stands for all that `every` has below it where all of it has one reason, and names
    that differ in their first number only, and not in their reason, are one."""
    below: dict[str, list] = {}
    for name in every:
        for scope in scopes(name):
            below.setdefault(scope, []).append(reasons.get(name))
    labels = {}
    for name, reason in reasons.items():
        whole = (f"{scope}.*" for scope in scopes(name) if len(below[scope]) > 1 and set(below[scope]) == {reason})
        labels[next(whole, name)] = reason
    alike: dict[tuple[str, str, str], list[int]] = {}
    for label, reason in labels.items():
        before, number, after = around(label)
        alike.setdefault((before, after, reason), []).extend(number)
    return {f"{before}{ranges(numbers)}{after}": reason for (before, after, reason), numbers in alike.items()}


def scopes(name: str) -> Iterator[str]:
    """blocks, blocks.4, blocks.4.attn of blocks.4.attn.weight."""
    parts = name.split(".")
    return (".".join(parts[:i]) for i in range(1, len(parts)))


def around(label: str) -> tuple[str, list[int], str]:
    """What stands before the first number, that number if there is one, and what stands after it."""
    parts = label.split(".")
    for i, part in enumerate(parts):
        if i and part.isascii() and part.isdecimal() and len(part) <= DIGITS:
            return ".".join(parts[:i]) + ".", [int(part)], "".join(f".{part}" for part in parts[i + 1 :])
    return label, [], ""


def ranges(numbers: Sequence[int]) -> str:
    """0-3,7 of 0, 1, 2, 3, 7."""
    spans: list[list[int]] = []
    for n in sorted(numbers):
        if spans and n <= spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in spans)
