"""Pullback: deep learning on JAX with every derivative written by hand.

`import pullback as pb`, `from pullback import nn, ops`.
"""

from .lib import starting as starting  # before all that takes long

# isort: split
from . import nn as nn
from . import ops as ops
from .autograd import Compiled as Compiled
from .autograd import MemoryPlan as MemoryPlan
from .autograd import NanError as NanError
from .autograd import Tensor as Tensor
from .autograd import UnmatchedRule as UnmatchedRule
from .autograd import Verdict as Verdict
from .autograd import check as check
from .autograd import check_rule as check_rule
from .autograd import checkpoint as checkpoint
from .autograd import collecting as collecting
from .autograd import compile as compile
from .autograd import debug_nans as debug_nans
from .autograd import draw as draw
from .autograd import first_difference as first_difference
from .autograd import grad as grad
from .autograd import hessian as hessian
from .autograd import hvp as hvp
from .autograd import jacobian as jacobian
from .autograd import jvp as jvp
from .autograd import key as key
from .autograd import keys as keys
from .autograd import rules as rules
from .autograd import scan as scan
from .autograd import scope as scope
from .autograd import tap as tap
from .autograd import tensor as tensor
from .autograd import testing as testing
from .autograd import value_and_grad as value_and_grad
from .autograd import vjp as vjp
from .lib.errors import PullbackError as PullbackError
from .lib.precision import precision as precision
from .ops import stop_gradient as stop_gradient
from .ops.op import fused as fused
from .ops.op import primitive as primitive
