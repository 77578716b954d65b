"""The notebook on ratings of films: joined, encoded, and learnt from by both frameworks."""

import pytest

import rowmill
from tests.examples.notebooks import run

FOUND = """{
    "auc": [auc_torch, auc_keras],
    "joined": train.head(200).select(["movieId", "genres"]).rows(),
    "columns": train.columns,
}"""


def test_both_frameworks_learn_from_lists_joins_and_encoded_targets(tmp_path):
    pytest.importorskip("keras")
    found = run("movielens.ipynb", tmp_path, FOUND, KERAS_BACKEND="torch")
    assert min(found["auc"]) > 0.72, "the taste of users for genres is found"
    assert found["columns"] == ["userId", "movieId", "genres", "TE_movieId_rating", "TE_userId_rating", "liked"]
    genres = {}
    for movie, joined in found["joined"]:
        assert joined == genres.setdefault(movie, joined) and all(code > 2 for code in joined)
    loaded = rowmill.Workflow.load(tmp_path / "movielens" / "workflow")
    assert loaded.output_schema["genres"].is_list
