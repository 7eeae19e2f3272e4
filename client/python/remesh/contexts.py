# SPDX-License-Identifier: Apache-2.0
"""Contexts, which are named servers: reads the file that `remeshctl config` shows as remeshctl
does.

The file is $REMESH_CONFIG, else ~/.config/remesh/config.yaml. The context is $REMESH_CONTEXT, else
the file's current_context. The environment (REMESH_SERVER, REMESH_TLS_*) wins over it. Only reading
this file needs PyYAML.
"""

import os
import pathlib
from typing import Dict, Optional

KEYS = {"server", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "job"}
_PATHS = {"tls_ca", "tls_cert", "tls_key"}


def path() -> pathlib.Path:
    named = os.environ.get("REMESH_CONFIG", "")
    return (
        pathlib.Path(named) if named else pathlib.Path.home() / ".config" / "remesh" / "config.yaml"
    )


def load(name: Optional[str] = None) -> Dict[str, str]:
    """The values of a context; {} when none is chosen. ValueError names file and key, or the
    context that is missing."""
    chosen = name or os.environ.get("REMESH_CONTEXT", "")
    file = path()
    if not file.exists():
        if chosen:
            raise ValueError(f"{file}: there is no such file, and so no context {chosen!r}")
        return {}
    import yaml  # pylint: disable=import-outside-toplevel

    document = yaml.safe_load(file.read_text()) or {}
    contexts = document.get("contexts") if isinstance(document, dict) else None
    chosen = chosen or (document.get("current_context", "") if isinstance(document, dict) else "")
    if not chosen:
        return {}
    if not isinstance(contexts, dict) or chosen not in contexts:
        raise ValueError(
            f"{file}: there is no context {chosen!r}; it has: {', '.join(contexts or {})}"
        )
    context = contexts[chosen]
    if not isinstance(context, dict) or not context.get("server"):
        raise ValueError(f"{file}: contexts.{chosen}.server must be HOST:PORT")
    for key in context:
        if key not in KEYS:
            raise ValueError(
                f"{file}: contexts.{chosen}.{key} must not be here: the keys are "
                f"{', '.join(sorted(KEYS))}"
            )
    return {
        key: str(file.parent / value) if key in _PATHS else str(value)
        for key, value in context.items()
    }
