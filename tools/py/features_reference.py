# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Results of scikit-learn and NumPy for a few points: internal/numeric/testdata/features.json.

    python3 tools/py/features_reference.py > internal/numeric/testdata/features.json

Needs Debian's python3-sklearn (bookworm: scikit-learn 1.2.1, NumPy 1.24.2, Python 3.11).
"""
import json

import numpy
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

points, asked, width, classes, k, temperature = 43, 11, 7, 5, 6, 0.07
draw = numpy.random.RandomState(29)
centres = draw.normal(size=(classes, width))
labels = draw.randint(classes, size=points)
x = (centres[labels] + 0.9 * draw.normal(size=(points, width))).round(4)
queries = draw.normal(size=(asked, width)).round(4)

nearest = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(x)
distances, index = nearest.kneighbors(queries)
# https://github.com/facebookresearch/dino, eval_knn.py: similarities divided by T, exponentiated, summed by class
votes = numpy.zeros((asked, classes))
for i in range(asked):
    for d, j in zip(distances[i], index[i]):
        votes[i, labels[j]] += numpy.exp((1 - d) / temperature)
_, others = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(x).kneighbors()

fits = []
for l2 in (3.0, 0.1, 0.004):
    # its lbfgs stops where the loss falls by less than 2e-9 of itself, which leaves 1e-4 of the weights
    model = LogisticRegression(C=1 / (points * l2), tol=1e-9, max_iter=100000, multi_class="multinomial",
                               solver="newton-cg").fit(x, labels)
    fits.append({"l2": l2, "weights": model.coef_.T.tolist(), "biases": model.intercept_.tolist(),
                 "probabilities": model.predict_proba(queries).tolist()})

json.dump({
    "made_by": f"scikit-learn {sklearn.__version__}, NumPy {numpy.__version__}: tools/py/features_reference.py",
    "points": x.tolist(), "labels": labels.tolist(), "queries": queries.tolist(), "classes": classes, "k": k,
    "temperature": temperature, "cosines": (1 - distances).tolist(), "index": index.tolist(), "votes": votes.tolist(),
    "others": others.tolist(), "fits": fits,
}, __import__("sys").stdout)
print()
