"""The program of the TensorFlow page, with only the import changed. TensorFlow has a process of its own."""

import os
import subprocess
import sys

import polars as pl

from rowmill.tools.synthetic import criteo

PROGRAM = """
import glob
import os

import tensorflow as tf

# Control how much memory to give TensorFlow with this environment variable
# IMPORTANT: Do this before you initialize the TensorFlow runtime, otherwise
# it's too late and TensorFlow will claim all free GPU memory
os.environ['TF_MEMORY_ALLOCATION'] = "8192" # explicit MB
os.environ['TF_MEMORY_ALLOCATION'] = "0.5" # fraction of free memory
from rowmill.loader.tensorflow import KerasSequenceLoader, KerasSequenceValidater
from rowmill.loader.keras_layers import DenseFeatures

CATEGORICAL_COLUMNS = [f"C{i}" for i in range(1, 27)]
CONTINUOUS_COLUMNS = [f"I{i}" for i in range(1, 14)]
LABEL_COLUMNS = ["label"]
BATCH_SIZE = 512
import polars as pl
SIZES = pl.read_parquet("./t*/*.parquet", columns=CATEGORICAL_COLUMNS).max().row(0)
EMBEDDING_TABLE_SHAPES = {name: (size + 1, 4) for name, size in zip(CATEGORICAL_COLUMNS, SIZES)}

def make_categorical_embedding_column(name, dictionary_size, embedding_dim):
    return tf.feature_column.embedding_column(
       tf.feature_column.categorical_column_with_identity(name, dictionary_size),
           embedding_dim
    )

# instantiate the columns
categorical_columns = [
   make_categorical_embedding_column(name,*EMBEDDING_TABLE_SHAPES[name]) for name in CATEGORICAL_COLUMNS
]
continuous_columns = [
   tf.feature_column.numeric_column(name, (1,)) for name in CONTINUOUS_COLUMNS
]

TRAIN_PATHS = glob.glob("./train/*.parquet")
train_dataset_tf = KerasSequenceLoader(
   TRAIN_PATHS, # you could also use a glob pattern
   feature_columns=categorical_columns + continuous_columns,
   batch_size=BATCH_SIZE,
   label_names=LABEL_COLUMNS,
   shuffle=True,
   buffer_size=0.06  # amount of data, as a fraction of GPU memory, to load at one time
)

inputs = {name: tf.keras.Input((1,), name=name, dtype=tf.int64) for name in CATEGORICAL_COLUMNS}
inputs |= {name: tf.keras.Input((1,), name=name) for name in CONTINUOUS_COLUMNS}
hidden = DenseFeatures(categorical_columns + continuous_columns)(inputs)
hidden = tf.keras.layers.Dense(16, activation="relu")(tf.keras.layers.BatchNormalization()(hidden))
output = tf.keras.layers.Dense(1, activation="sigmoid")(hidden)

model = tf.keras.Model(inputs=inputs, outputs=output)
model.compile('sgd', 'binary_crossentropy')

history = model.fit(train_dataset_tf, epochs=5)

valid_dataset_tf = KerasSequenceLoader(
   "./test/*.parquet",
   feature_columns=categorical_columns + continuous_columns,
   batch_size=BATCH_SIZE,
   label_names=LABEL_COLUMNS,
   shuffle=False,
)
validation_callback = KerasSequenceValidater(valid_dataset_tf)
longer = model.fit(train_dataset_tf, callbacks=[validation_callback], epochs=5)

losses = history.history["loss"] + longer.history["loss"]
assert losses[-1] < losses[0], losses
assert len(longer.history["val_loss"]) == 5
assert abs(longer.history["val_loss"][-1] - model.evaluate(valid_dataset_tf, verbose=0)) < 1e-5
assert train_dataset_tf.epoch == 10 and len(train_dataset_tf) == 12
assert train_dataset_tf.num_rows_processed == 6000
"""


def test_the_documents_program(tmp_path):
    criteo(tmp_path / "train", 6000, files=3, row_group_rows=500, seed=1)
    criteo(tmp_path / "test", 1000, files=1, row_group_rows=500, seed=2)
    for path in tmp_path.glob("*/*.parquet"):  # small embedding tables: 10 million rows of them take a minute
        frame = pl.read_parquet(path)
        frame.with_columns(pl.col("^C.*$") % 1000).write_parquet(path, row_group_size=500)
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert found.returncode == 0, found.stderr[-4000:]
