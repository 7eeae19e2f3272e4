#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `remeshctl plan --view full -o json` takes of Llama-3.1-405B moved between device counts:
memory, rate, first byte.

    tests/benchmark/full_plan.py [--bin-dir build/release/bin] [--devices 128,512] [--server
    HOST:PORT] [--gigabytes 2]

Reads the answer from a pipe and throws it away; --gigabytes stops after so many (0: reads to the
end).
"""

import argparse
import json
import pathlib
import resource
import subprocess
import tempfile
import time

LAYERS, WIDTH, KV, FFN, VOCABULARY = 126, 16384, 1024, 53248, 128256
LAYER = {
    "q_proj": (WIDTH, WIDTH),
    "k_proj": (KV, WIDTH),
    "v_proj": (KV, WIDTH),
    "o_proj": (WIDTH, WIDTH),
    "gate_proj": (FFN, WIDTH),
    "up_proj": (FFN, WIDTH),
    "down_proj": (WIDTH, FFN),
    "input_layernorm": (WIDTH,),
    "post_attention_layernorm": (WIDTH,),
}


def spec(source, target):
    """From rows over all devices to columns over all devices: every device sends to every other a
    piece of every matrix."""
    shapes = {"embed_tokens": (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        shapes.update({f"layers.{layer}.{name}": shape for name, shape in LAYER.items()})
    shapes.update({"norm": (WIDTH,), "lm_head": (VOCABULARY, WIDTH)})
    hosts = [
        {"name": f"host-{i}", "preset": "hgx-h100", "device_ids": list(range(8 * i, 8 * i + 8))}
        for i in range(max(source, target) // 8)
    ]
    tiles = {"before1": [source], "before2": [source, 1], "after1": [target], "after2": [1, target]}
    shardings = {
        key: {
            "hlo_text": f"{{devices={json.dumps(tile)}<=[{max(tile)}]}}",
            "devices": {"range": {"start": 0, "count": max(tile)}},
        }
        for key, tile in tiles.items()
    }
    arrays = [
        {
            "name": name,
            "shape": list(shape),
            "element_type": "bf16",
            "source": {"ref": f"before{len(shape)}"},
            "target": {"ref": f"after{len(shape)}"},
        }
        for name, shape in shapes.items()
    ]
    return {"topology": {"hosts": hosts}, "shardings": shardings, "arrays": arrays}


def peak_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(argv, max_bytes):
    start = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        first = process.stdout.read(1)
        first_seconds = time.monotonic() - start
        total, peak = len(first), 0
        while not max_bytes or total < max_bytes:
            chunk = process.stdout.read(1 << 22)
            if not chunk:
                break
            total += len(chunk)
            peak = max(peak, peak_bytes(process.pid))
        seconds = time.monotonic() - start - first_seconds
        whole = not max_bytes or total < max_bytes
        if not whole:
            process.terminate()
        process.stdout.close()
        code = process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{' '.join(map(str, argv[1:]))}\n  {total / 1e6:,.0f} MB "
        f"({'whole' if whole else 'cut off'}, exit {code}), first byte {first_seconds:.2f} s, "
        f"{total / 1e6 / max(seconds, 1e-9):.0f} MB/s, peak RSS {peak / 1e6:.0f} MB, CPU "
        f"{used.ru_utime + used.ru_stime:.1f} s"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin-dir", default="build/release/bin")
    parser.add_argument("--devices", default="128,512")
    parser.add_argument("--server", default="")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    arguments = parser.parse_args()
    source, target = map(int, arguments.devices.split(","))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(spec(source, target), file)
        file.flush()
        where = ["--server", arguments.server] if arguments.server else ["--here"]
        measure(
            [
                f"{arguments.bin_dir}/remeshctl",
                "plan",
                "-f",
                file.name,
                "--view",
                "full",
                "-o",
                "json",
                *where,
            ],
            int(arguments.gigabytes * 1e9),
        )


if __name__ == "__main__":
    main()
