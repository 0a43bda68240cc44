"""The ops that the library promises, by name: each is there and has cases."""

import pytest

from pullback import ops
from pullback.ops.cases import CASES, EDGES, FACE_CASES
from pullback.ops.op import FACES, REGISTRY

PROMISED = """
    add sub mul div neg pow pow_constant power exp expm1 log log1p square sqrt rsqrt reciprocal abs sign sin cos tan arcsin arccos arctan
    sinh cosh tanh sigmoid erf softplus relu leaky_relu elu silu mish gelu gelu_erf maximum minimum clip floor ceil round trunc
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_not isfinite isinf isnan where
    sum mean max min prod var std norm cumsum cumprod logsumexp argmax argmin any all count
    reshape transpose swapaxes moveaxis squeeze expand_dims broadcast_to sum_to stack unstack concatenate split pad flip roll tril triu
    repeat tile diagonal cast stop_gradient
    index slice take take_along_axis index_set index_add index_fill segment_sum sort argsort top_k one_hot embedding embedding_bag
    masked_fill
    matmul einsum outer dot linear cholesky triangular_solve solve inverse slogdet
    softmax log_softmax softmax_cross_entropy nll_of_probabilities sigmoid_binary_cross_entropy mean_squared_error l1_loss huber_loss
    kl_divergence layer_norm rms_norm group_norm rotary swiglu attention dropout linear_softmax_cross_entropy
""".split()

CHECKED = {case.op if isinstance(case.op, str) else getattr(case.op, "name", case.op.__name__) for case in [*CASES, *FACE_CASES]}
CHECKED |= {edge.op.name for edge in EDGES}


@pytest.mark.parametrize("name", PROMISED)
def test_op_is_there_and_has_cases(name):
    assert callable(getattr(ops, name, None)) or name in REGISTRY, f"pullback.ops has no {name!r}"
    assert name in REGISTRY or name in FACES, f"{name!r} is in no list that `pullback check` goes through"
    assert name in CHECKED, f"{name!r} has no cases"


def test_there_are_a_hundred_and_more():
    assert len(set(PROMISED)) == len(PROMISED) >= 100
