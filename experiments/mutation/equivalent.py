"""Mutants that are no mistakes: each with its proof in a line. The command checks that they agree with the original.

A key is the target and the diff that `pullback mutate` prints.
"""

PROOFS: dict[tuple[str, str], str] = {}

NAUGHT = "-    return (jnp.zeros(res.x.shape, res.x.dtype),)\n+    return (-jnp.zeros(res.x.shape, res.x.dtype),)"
PROOFS |= {(f"{step}=exact", NAUGHT): "−0 = 0" for step in ("sign", "floor", "ceil", "round", "trunc")}

NARROW = "a product of what float32 softmax gave: the cast only lets it be made in half precision, and in float64 there is none"
PROOFS |= {
    ("attention=exact", "-        z_bar = z_bar.astype(q.dtype)\n+        z_bar = z_bar"): NARROW,
    (
        "attention=exact",
        "-        v_bar.append(product(f'b{h}st,b{h}tj->bgsj', p.astype(y_bar.dtype), y_bar[..., rows, :]))\n"
        "+        v_bar.append(product(f'b{h}st,b{h}tj->bgsj', p, y_bar[..., rows, :]))",
    ): NARROW,
}
