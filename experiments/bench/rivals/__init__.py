"""The same steps by other means. Each program runs alone, from this folder, and imports nothing of Pullback."""
