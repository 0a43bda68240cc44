"""How was it composed? Tensors, the walk, and the transforms of functions."""

from .checkpoint import checkpoint as checkpoint
from .collect import collecting as collecting
from .collect import tap as tap
from .compile import Compiled as Compiled
from .compile import MemoryPlan as MemoryPlan
from .compile import compile as compile
from .debug import NanError as NanError
from .debug import debug_nans as debug_nans
from .explore import draw as draw
from .explore import tensor as tensor
from .graph import Tensor as Tensor
from .random import key as key
from .random import keys as keys
from .rules import UnmatchedRule as UnmatchedRule
from .rules import rules as rules
from .scan import scan as scan
from .scope import scope as scope
from .transforms import grad as grad
from .transforms import hessian as hessian
from .transforms import hvp as hvp
from .transforms import jacobian as jacobian
from .transforms import jvp as jvp
from .transforms import value_and_grad as value_and_grad
from .transforms import vjp as vjp
