"""The step of Adagrad, which every learner of the library takes."""

import numpy as np

from memorytree.engine.jit import fast_helper, helper

EPSILON = np.float32(1e-30)  # prevents a division of 0 by 0 where all gradients so far were 0


def _step(square, gradient, rate, epsilon):
    """Return (the sum of squared gradients with this one, the step to subtract from the weight)."""
    square += gradient * gradient
    return square, rate * gradient / np.sqrt(square + epsilon)


adagrad_step = helper(_step)
fast_adagrad_step = fast_helper(_step)  # for use in functions compiled as `fast_helper`
