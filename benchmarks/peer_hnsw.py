"""hnswlib, one thread: the usual choice for approximate search over dense keys."""

import numpy as np

M, EF_CONSTRUCTION = 16, 100


def build(keys):
    import hnswlib

    index = hnswlib.Index(space="l2", dim=keys.shape[1])
    index.init_index(max_elements=len(keys), M=M, ef_construction=EF_CONSTRUCTION, random_seed=100)
    index.set_num_threads(1)
    index.add_items(keys, np.arange(len(keys)), num_threads=1)
    return index


def search(index, keys, k: int, ef: int):
    index.set_ef(ef)
    return index.knn_query(keys, k=k, num_threads=1)[0]
