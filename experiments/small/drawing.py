"""A graph as a picture: the value that it ends in at the right, what it is made of in layers to the left."""

from pathlib import Path

from ...autograd import Tensor
from ...autograd.graph import Node
from ...lib.atomic import replacing

WIDE, HIGH = 2.6, 1.5  # inches from box to box


def plot_graph(path: Path, y: Tensor, named: dict[str, Tensor], title: str) -> None:
    """A box for each node behind y: its op, and for a value of `named` its name, its number and its gradient, too."""
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    layers = layered(y.node)
    places = {node: (-depth, place) for depth, layer in enumerate(layers) for node, place in spread(layer).items()}
    texts = {value.node: f"{name} = {float(value):.4g}\ngradient {float(value.grad):.4g}" for name, value in named.items()}
    tallest = max(map(len, layers))
    figure = Figure(figsize=(WIDE * len(layers), HIGH * tallest + 0.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(-len(layers) + 0.5, 0.5), ylim=(-tallest / 2, tallest / 2), title=title)
    axes.axis("off")
    boxes = {}
    for node, place in places.items():
        op = "" if node.op is None else f"{node.op.name}\n"
        style = {"boxstyle": "round,pad=0.5", "facecolor": "#fff3d6" if node.op is None else "#dcecfb", "edgecolor": "0.35"}
        boxes[node] = axes.text(*place, op + texts.get(node, ""), ha="center", va="center", bbox=style, zorder=2, linespacing=1.4)
    figure.draw_without_rendering()  # boxes are as large as their text, and arrows end at boxes
    for node, place in places.items():
        for parent in {parent[0] for parent in node.parents if parent is not None}:
            ends = {"patchA": boxes[parent].get_bbox_patch(), "patchB": boxes[node].get_bbox_patch(), "shrinkA": 0, "shrinkB": 0}
            arrow = {"arrowstyle": "-|>", "mutation_scale": 14, "color": "0.35", **ends}
            axes.annotate("", place, places[parent], arrowprops=arrow, zorder=1)
    with replacing(path) as beside:
        figure.savefig(beside, dpi=110)


def layered(root: Node) -> list[list[Node]]:
    """The nodes by the longest way to the root, which is alone in layer 0, so that every arrow goes from a layer to a lower one.

    Within a layer they stand in the order of what uses them, which keeps arrows from crossing where that can be had cheaply.
    """
    depth, waiting = {root: 0}, [root]
    while waiting:
        node = waiting.pop()
        for parent in node.parents:
            if parent is not None and depth.get(parent[0], -1) <= depth[node]:
                depth[parent[0]] = depth[node] + 1
                waiting.append(parent[0])
    layers: list[list[Node]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in sorted(depth, key=lambda node: node.order):
        layers[depth[node]].append(node)
    place: dict[Node, float] = {}
    for layer in layers:
        users = {node: [place[user] for user in place if any(p is not None and p[0] is node for p in user.parents)] for node in layer}
        layer.sort(key=lambda node: sum(users[node]) / len(users[node]) if users[node] else 0.0)
        place |= spread(layer)
    return layers


def spread(layer: list[Node]) -> dict[Node, float]:
    """Heights of the nodes of a layer, one apart and about the middle; the first is on top."""
    return {node: (len(layer) - 1) / 2 - i for i, node in enumerate(layer)}
