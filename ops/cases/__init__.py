"""Cases and edge points of every op, by family; `CASES` and `EDGES` hold all of them."""

from . import (
    activation,
    arithmetic,
    attention,
    dropout,
    head,
    identity,
    indexing,
    joining,
    linear,
    loss,
    matmul,
    normalisation,
    reduction,
    selection,
    shape,
    slicing,
    softmax,
)

FAMILIES = (
    activation,
    arithmetic,
    attention,
    dropout,
    head,
    identity,
    indexing,
    joining,
    linear,
    loss,
    matmul,
    normalisation,
    reduction,
    selection,
    shape,
    slicing,
    softmax,
)

CASES = [case for family in FAMILIES for case in family.CASES]
EDGES = [edge for family in FAMILIES for edge in family.EDGES]
