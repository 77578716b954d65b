"""Runs a notebook of examples/ in a kernel of its own; used by the tests of the notebooks."""

import json
import os
from pathlib import Path

import nbclient
import nbformat

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder, expression, **environment):
    """Execute a notebook in `folder`; what `expression` is at its end, by way of JSON."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "notebooks are kept without their outputs"
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({expression}))"))
    client = nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, **environment})
    said = "".join(output.text for output in notebook.cells[-1].outputs if output.get("name") == "stdout")
    return json.loads(said)
