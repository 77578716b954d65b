"""Each loader loads its own framework and no other; one that is missing is named in one sentence."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax")
ALLOWED = {
    "numpy": set(),
    "torch": {"torch"},
    "jax": {"jax"},
    "_keras.keras_loader": set(),
    "_keras.loaders": set(),
    "feature_columns": set(),
}


@pytest.mark.parametrize("module", ALLOWED)
def test_a_loader_loads_only_its_own_framework(module):
    code = f"import rowmill.loader.{module}, sys; print([m for m in {FRAMEWORKS!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(eval(found.stdout)) == ALLOWED[module]


def test_keras_on_another_backend_needs_no_tensorflow():
    hidden = "import sys; sys.modules['tensorflow'] = None; import rowmill.loader.keras as k; print(k.Loader.__name__)"
    for backend in ("torch", "jax"):
        env = {"KERAS_BACKEND": backend, "PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "HOME": "/tmp"}
        found = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, env=env)
        assert found.stdout == "Loader\n", found.stderr


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("tensorflow", "tensorflow", "tensorflow"),
        ("keras", "keras", "keras"),
        ("keras_layers", "keras", "keras"),
        ("jax", "jax", "jax"),
        ("torch", "torch", "torch"),
        ("fastai", "fastai", "fastai"),
        ("lightning", "lightning", "lightning"),
    ],
)
def test_a_missing_framework_is_one_sentence(module, missing, extra):
    code = f"import sys; sys.modules[{missing!r}] = None; import rowmill.loader.{module}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: rowmill.loader.{module} needs ") and f"pip install 'rowmill[{extra}]'" in last
