"""Pullback: deep learning on JAX with every derivative written by hand."""
