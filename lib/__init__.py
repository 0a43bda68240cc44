"""What needs no gradient: errors, precision, keys, the arena, files, tokenisers, data."""
