"""Call ``whyhang.heartbeat`` at each step of a framework's loop.

::

    Trainer(callbacks=[whyhang.callbacks.LightningHeartbeat()])            # Lightning
    Trainer(..., callbacks=[whyhang.callbacks.TransformersHeartbeat()])    # Hugging Face

The classes are those of the framework that is installed; it is imported when one is asked for.
A plain loop needs neither: ``whyhang.heartbeat(step)``.
"""

from __future__ import annotations

import importlib
from typing import Any

from whyhang._heartbeat import heartbeat

__all__ = ["LightningHeartbeat", "TransformersHeartbeat"]

_BASES = {
    "LightningHeartbeat": (("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback")),
    "TransformersHeartbeat": (("transformers", "TrainerCallback"),),
}


class _OfLightning:
    """Notes every batch, of training, validation, test and prediction.

    Hooks by lightning.pytorch.callbacks.Callback; the step of an evaluation is that of training.
    """

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        heartbeat(trainer.global_step)

    on_validation_batch_start = on_train_batch_start
    on_test_batch_start = on_train_batch_start
    on_predict_batch_start = on_train_batch_start


class _OfTransformers:
    """Notes every step, and every step of an evaluation or prediction.

    Events by transformers.TrainerCallback.
    """

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        heartbeat(state.global_step)

    on_prediction_step = on_step_begin


_OWN = {"LightningHeartbeat": _OfLightning, "TransformersHeartbeat": _OfTransformers}


def __getattr__(name: str) -> Any:
    if name not in _OWN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = type(name, (_OWN[name], _base(name)), {"__doc__": _OWN[name].__doc__})
    globals()[name] = made
    return made


def _base(name: str) -> type:
    """Import the framework's class. Raises ``ImportError`` where none of them is installed."""
    for module, attribute in _BASES[name]:
        try:
            base: type = getattr(importlib.import_module(module), attribute)
        except ImportError:
            continue
        return base
    names = " or ".join(module.partition(".")[0] for module, _ in _BASES[name])
    raise ImportError(f"{name} needs {names}, which is not installed")
