"""Cases and edge points of every op, by family; `CASES` and `EDGES` hold all of them."""
