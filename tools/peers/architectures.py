# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints/architectures.json: the arguments of timm's architectures that files lack, and older names.

    python tools/peers/architectures.py > checkpoints/architectures.json

timm writes into config.json only the arguments that the user passed. All others are those of the architecture's
function ("args"), then some of the pretrained_cfg ("trained": the architecture's, if the file has none), then the
defaults of the class. Checked with timm 1.0.31.
"""
import functools
import importlib
import inspect
import json

import timm
from timm.models._registry import _deprecated_models

MODULES = ("vision_transformer", "eva", "deit", "beit")
FACTORY = ("pretrained_filter_fn", "feature_cfg", "kwargs_filter", "pretrained_strict", "cache_dir",
           "pretrained_cfg_overlay", "pretrained_cfg", "device", "dtype")


class Built(Exception):
    """Stops the construction of a model once its arguments are known."""


def record(cls, variant, pretrained, **kwargs):
    raise Built(cls, kwargs)


def plain(value):
    """The JSON form of a value: functions and classes by name, with the arguments that partial binds."""
    if isinstance(value, functools.partial):
        bound = ",".join(f"{k}={plain(v)}" for k, v in sorted(value.keywords.items()))
        return f"{plain(value.func)}({bound})"
    return value.__name__ if callable(value) else value


def trained(cfg, args):
    """The arguments that timm takes from the architecture's pretrained_cfg: a file's own pretrained_cfg replaces it."""
    own = {"img_size": list(cfg.input_size[1:]) if cfg.fixed_input_size else None, "in_chans": cfg.input_size[0],
           "global_pool": getattr(cfg, "global_pool", None)}
    own = {k: v for k, v in own.items() if k not in args and v not in (None, 3)}
    return {"trained": own} if own else {}


def main():
    classes, architectures = {}, {}
    for module in MODULES:
        code = importlib.import_module("timm.models." + module)
        code.build_model_with_cfg = record
        for name in timm.list_models(module=module):
            try:
                timm.create_model(name)
            except Built as built:
                cls, kwargs = built.args
            args = {k: plain(v) for k, v in kwargs.items() if k not in FACTORY}
            # Arguments that a subclass does not name are those of its base class.
            parameters = {}
            for base in reversed(cls.__mro__[:-1]):
                if base.__module__.startswith("timm."):
                    parameters.update(inspect.signature(base.__init__).parameters)
            classes[cls.__name__] = {
                k: plain(p.default) for k, p in parameters.items()
                if p.default is not inspect.Parameter.empty and k not in FACTORY}
            defaults = classes[cls.__name__]
            changed = {k: v for k, v in args.items() if json.dumps(v) != json.dumps(defaults.get(k, "none"))}
            architectures[name] = {"class": cls.__name__, "args": changed, **trained(timm.get_pretrained_cfg(name), args)}
    renamed = {old: new.split(".")[0] for old, new in _deprecated_models.items() if new.split(".")[0] in architectures}
    line = functools.partial(json.dumps, separators=(",", ":"))
    print('{"timm":%s,"classes":{' % line(timm.__version__))
    print(",\n".join(f"{line(k)}:{line(v)}" for k, v in classes.items()))
    print('},"architectures":{')
    print(",\n".join(f"{line(k)}:{line(v)}" for k, v in architectures.items()))
    print('},"renamed":%s}' % line(renamed))


if __name__ == "__main__":
    main()
