"""Mutants that are no mistakes: each with its proof in a line. The command checks that they agree with the original.

A key is the target and the diff that `pullback mutate` prints.
"""

PROOFS: dict[tuple[str, str], str] = {}

NAUGHT = "-    return (jnp.zeros(res.x.shape, res.x.dtype),)\n+    return (-jnp.zeros(res.x.shape, res.x.dtype),)"
PROOFS |= {(f"{step}=exact", NAUGHT): "−0 = 0" for step in ("sign", "floor", "ceil", "round", "trunc")}

EARLY = "-        return (jnp.zeros(res.x.shape, res.x.dtype),)\n+        return (-jnp.zeros(res.x.shape, res.x.dtype),)"
PROOFS |= {("pow_constant=exact", EARLY): "−0 = 0", ("logsumexp=exact", EARLY): "nothing has no sign"}

PROOFS |= {
    (
        "logsumexp=exact",
        "-    m = stop_gradient(max(x, axis=axis, keepdims=True))\n+    m = max(x, axis=axis, keepdims=True)",
    ): "e/Σe is the same for every m, so what flows back through m is 0: stopping it spares the work",
    (
        "logsumexp=exact",
        "-    at_m = where(equal(x, m), 0.0, -math.inf)\n+    at_m = where(equal(x, m), 1.0, -math.inf)",
    ): "a factor that all e have cancels in e/Σe",
}

THRESHOLD = "the probability is stated to 2⁻³², and another threshold by one changes one draw in 2³²"
BITS = "    return jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(key, i), shape[1:], jnp.uint32) {} limit)(rows)"
PROOFS |= {
    (
        "dropout=exact",
        "-    limit = jnp.uint32(min(round((1 - rate) * 2 ** 32), 2 ** 32 - 1))\n"
        "+    limit = jnp.uint32(min(round((1 - rate) * 2 ** 32), 2 ** 32 - 2))",
    ): THRESHOLD,
    ("dropout=exact", f"-{BITS.format('<')}\n+{BITS.format('<=')}"): THRESHOLD,
    (
        "dropout=exact",
        "-    return 1 / (1 - rate) if rate < 1 else 0.0\n+    return 1 / (1 - rate) if rate < 1 else 1.0",
    ): "at rate 1 nothing is kept, so the gain meets nothing",
}

NARROW = "a product of what float32 softmax gave: the cast only lets it be made in half precision, and in float64 there is none"
PROOFS |= {
    ("attention=exact", "-        z_bar = z_bar.astype(q.dtype)\n+        z_bar = z_bar"): NARROW,
    (
        "attention=exact",
        "-        v_bar.append(product(f'b{h}st,b{h}tj->bgsj', p.astype(y_bar.dtype), y_bar[..., rows, :]))\n"
        "+        v_bar.append(product(f'b{h}st,b{h}tj->bgsj', p, y_bar[..., rows, :]))",
    ): NARROW,
}
