# SPDX-License-Identifier: Apache-2.0
"""The image whose one process holds a pod's namespaces, made of a few lines of C and no registry:
pause_image.py ARCHIVE."""

import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

NAME = "localhost/pause:1"
SOURCE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void Stop(int signal) { (void)signal; _exit(0); }
static void Reap(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) {
  signal(SIGTERM, Stop);
  signal(SIGINT, Stop);
  signal(SIGCHLD, Reap);
  for (;;) pause();
}
"""


def tar_of(files: dict) -> bytes:
    """name -> contents; all executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, contents in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(contents), 0o755
            archive.addfile(entry, io.BytesIO(contents))
    return buffer.getvalue()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "pause"
        subprocess.run(
            ["cc", "-Os", "-static", "-s", "-x", "c", "-", "-o", binary],
            input=SOURCE.encode(),
            check=True,
        )
        layer = tar_of({"pause": binary.read_bytes()})
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {
                "type": "layers",
                "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()],
            },
        }
    ).encode()
    manifest = json.dumps(
        [{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    ).encode()
    pathlib.Path(sys.argv[1]).write_bytes(
        tar_of({"config.json": config, "layer.tar": layer, "manifest.json": manifest})
    )


if __name__ == "__main__":
    main()
