"""Classify points with several estimators."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC


def main():
    rng = np.random.default_rng(17)
    angle, side = rng.uniform(0, np.pi, 600), rng.integers(0, 2, 600)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x[side == 1] = [1, 0.5] - x[side == 1]
    x += 0.2 * rng.standard_normal(x.shape)
    train, test = np.arange(0, 400), np.arange(400, 600)
    for model in (
        LogisticRegression(),
        SVC(gamma=2),
        KNeighborsClassifier(5),
        RandomForestClassifier(20, random_state=0),
    ):
        model.fit(x[train], side[train])
        found = model.predict(x[test])
        print(type(model).__name__, accuracy_score(side[test], found))
        print(confusion_matrix(side[test], found).tolist())
    chance = LogisticRegression().fit(x[train], side[train]).predict_proba(x[test])[:, 1]
    print(np.round(roc_auc_score(side[test], chance), 5), np.round(np.mean(np.log(chance)), 5))


if __name__ == "__main__":
    main()
