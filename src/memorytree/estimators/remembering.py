"""What classifiers that remember their rows have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from memorytree.hits import HitMatrix, Hits


class Remembering(ClassifierMixin, BaseEstimator):
    """A classifier whose training rows are memories, with a model of its own for what it scores by them.

    For dense rows the model lives in the learned space of the memory, and follows it when that changes.
    """

    memory_: Any
    _model: Any
    _dense: bool
    _settled: int  # how many keys the space was found from in which the model's weights are
    _planted: int  # memories when the trees were last planted

    def _ask(self, X: Any) -> HitMatrix:
        raise NotImplementedError

    def _asked(self, X: Any) -> Any:
        """Rows that are asked for, checked."""
        check_is_fitted(self, "memory_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        if not len(self.memory_):
            raise NotFittedError("all memories have been removed: there is nothing to predict from")
        return X

    def recall(self, X: Any) -> list[Hits]:
        """The memories behind each prediction, best first: `Hit(id, label or labels, score)`; the id is the row's number."""
        return list(self._ask(self._asked(X)))

    def _follow(self) -> bool:
        """Follow the memory into a new space (then True), or plant its trees anew if it has doubled since."""
        if not self._dense:
            return False
        space = self.memory_._core.space
        if space.settled != self._settled:
            self._settled = space.settled
            self._model = self._model.in_space(space.width)
            return True
        if space.lessons and len(self.memory_) > 2 * self._planted:
            self._planted = len(self.memory_)
            self.memory_.learn()
        return False
