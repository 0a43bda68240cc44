"""Which composition? Whole models, one page each."""

from .gpt2 import GPT2 as GPT2
from .gpt2 import SIZES as SIZES
from .gpt2 import Block as Block
from .gpt2 import GPT2Config as GPT2Config
from .mlp import MLP as MLP
