# SPDX-License-Identifier: Apache-2.0
"""mTLS with real processes: who gets in, what a refused one is answered, and certificates that
change while everything runs."""

import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import grpc
import numpy as np

import harness
import remesh
from pki import Authority, Folder
from remesh import errors, job, local_group, storage
from remesh.connection import ServerConnection
from remesh.testing import Process
from remesh.trainer import Trainer
from remesh.v1 import state_pb2, state_pb2_grpc

STATE = "jobs/tls/states/model"
ROWS, COLUMNS = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}"
FRESH = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
CALLS_LEAST = 1000


class TlsTest(harness.ClusterTest):
    HOSTS = 2

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="remesh-tls-"))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.first, cls.second = Authority("first"), Authority("second")
        for authority in (cls.first, cls.second):
            cls.addClassCleanup(authority.close)
        cls.folders = {
            path: Folder(cls.root, path).write(cls.first)
            for path in (
                "server",
                "worker/host-0",
                "worker/host-1",
                "job/tls/trainer",
                "job/other/trainer",
                "admin/test",
            )
        }
        cls.TLS, cls.CLUSTER_TLS = (
            cls.folders["job/tls/trainer"].tls(),
            cls.folders["admin/test"].tls(),
        )
        server = cls.folders["server"].now
        cls.SERVER_CONFIG = [
            f"tls_certificate_file: {server}/tls.crt",
            f"tls_key_file: {server}/tls.key",
            f"tls_client_ca_file: {server}/ca.crt",
            "data_encryption: aes-256-gcm",
        ]
        cls.WORKER_CONFIG = [
            f"tls_{kind}_file: {cls.root}/worker-{{host}}/now/{name}"
            for kind, name in (("ca", "ca.crt"), ("certificate", "tls.crt"), ("key", "tls.key"))
        ]
        super().setUpClass()

    # ---- what the tests ask ----

    def remeshctl(self, *arguments, tls=None, server=None):
        """What it says on stderr; it must fail."""
        flags = (
            ["--tls-ca", tls.ca, "--tls-cert", tls.certificate, "--tls-key", tls.key] if tls else []
        )
        done = subprocess.run(
            [
                harness.BIN_DIR / "remeshctl",
                *arguments,
                "--server",
                server or self.cluster.server_address,
                "--timeout",
                "5",
                *flags,
            ],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def metric(self, process: str, series: str) -> float:
        url = (
            self.cluster.server_metrics_url
            if process == "server"
            else self.cluster.worker_metrics_url(process)
        )
        for line in urllib.request.urlopen(url, timeout=10).read().decode().splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
        self.fail(f"{process} has no {series}")

    def reload(self, processes, outcome: str, count: int) -> None:
        """Tells them that the files have changed, and waits until they have counted it."""
        for name in processes:
            process = self.cluster.server if name == "server" else self.cluster.workers[name]
            process.popen.send_signal(signal.SIGHUP)
        for name in processes:
            self.wait_until(
                f"{name} counts {count} {outcome}",
                lambda n=name: self.metric(n, f'remesh_tls_reloads_total{{outcome="{outcome}"}}')
                >= count,
            )

    # ---- the tests, in this order ----

    def test_1_a_reshard_works_and_is_encrypted(self):
        arrays = [harness.Array("w", "f32", (64, 64))]
        self.create_and_write(STATE, arrays, harness.text_sharding(ROWS, 0, 1, 2, 3))
        self.move(STATE, 1, harness.targets(arrays, harness.text_sharding(COLUMNS, 0, 1, 2, 3)))
        self.check_everywhere(STATE, 2, arrays)
        for host in self.cluster.host_names:
            for direction in ("sent", "received"):
                series = (
                    f'remesh_worker_transfer_bytes_total{{direction="{direction}",transport="%s"}}'
                )
                self.assertEqual(self.metric(host, series % "tcp+aes-256-gcm"), 4096)
                self.assertEqual(self.metric(host, series % "tcp"), 0)

    # ---- jobs, each by its own certificate ----

    def job(self, name, member, certificate=None):
        """A process's job on the host of its rank, over a connection with the job's certificate,
        which it does not close."""
        tls = self.folders[f"job/{certificate or name}/trainer"].tls()
        client = remesh.connect(
            self.cluster.worker_socket(self.cluster.host_names[member.rank]), tls=tls
        )
        self.addCleanup(client.close)
        return job.Core(name, client=client, job_group=member)

    def test_1_two_jobs_of_one_process_have_a_connection_each(self):
        array = storage.Array(
            "w", "u8", storage.Holders.of((4,), [(p, (2 * p,), (2 * p + 2,)) for p in range(2)])
        )

        def save(member):
            box = ((2 * member.rank,), (2 * member.rank + 2,))
            with self.job("tls", member) as tls, self.job("other", member) as other:
                for step, each in ((1, tls), (2, other)):
                    content = np.full((2,), 10 * step + member.rank, np.uint8)
                    each.save_pieces(
                        [job.Piece(array, [box], lambda _, c=content: c)], step, block=True
                    )

        local_group.run_together(local_group.LocalGroup.make(2, 60.0), save)
        whole = storage.Array("w", "u8", storage.Holders.everywhere((4,), 1))
        alone = local_group.LocalGroup.make(1)[0]
        with self.job("tls", alone) as tls, self.job("other", alone) as other:
            for step, each in ((1, tls), (2, other)):
                found = each.restore_arrays([whole])
                self.assertEqual(found.step, step)
                self.assertEqual(
                    found.shards.of("w")[0].bytes.tolist(),
                    [10 * step, 10 * step, 10 * step + 1, 10 * step + 1],
                )

    def test_1_a_job_with_the_certificate_of_another_is_refused_on_all(self):
        def begin(member):
            with self.assertRaisesRegex(
                errors.Refused, "PERMISSION_DENIED.*job/other/trainer may not call .* for jobs/tls"
            ):
                self.job("tls", member, certificate="other")

        local_group.run_together(local_group.LocalGroup.make(2, 60.0), begin)

    def test_2_strangers_are_told_why(self):
        self.assertIn(
            "if it speaks TLS, set --tls-ca, --tls-cert and --tls-key; else",
            self.remeshctl("states", "list"),
        )
        with self.assertRaises(grpc.RpcError) as plain:
            Trainer(self.cluster.server_address, str(self.root / "no.sock")).create_state(
                state_pb2.State()
            )
        said = errors.describe(plain.exception)
        self.assertIn(
            "if it speaks TLS, set REMESH_TLS_CA, REMESH_TLS_CERT and REMESH_TLS_KEY", said
        )
        self.assertTrue(any(note in said for note in getattr(plain.exception, "__notes__", [said])))
        ours = self.folders["admin/test"].tls()
        foreign = Folder(self.root, "admin/foreign").write(self.second).tls()
        self.assertIn(
            "its certificate is not of a CA in --tls-ca",
            self.remeshctl("states", "list", tls=foreign),
        )
        half = Folder(self.root, "admin/half").write(self.second, self.first).tls()
        self.assertIn(
            "it may not know the CA of the certificate in --tls-cert",
            self.remeshctl("states", "list", tls=half),
        )
        mixed = type(ours)(ca=ours.ca, certificate=ours.certificate, key=half.key)
        self.assertIn(
            "must be the key of the certificate in --tls-cert",
            self.remeshctl("states", "list", tls=mixed),
        )
        other_job = self.folders["job/other/trainer"].tls()
        self.assertIn(
            "spiffe://remesh.local/job/other/trainer may not call GetState for jobs/tls",
            self.remeshctl("states", "get", STATE, tls=other_job),
        )

    def test_3_a_worker_is_the_host_of_its_certificate(self):
        now = self.folders["worker/host-0"].now
        worker = Process(
            "impostor",
            [
                str(harness.BIN_DIR / "remesh-worker"),
                "--host",
                "host-9",
                "--server-address",
                self.cluster.server_address,
                "--device-ids",
                "90",
                "--buffer-directory",
                str(self.root / "buffers"),
                "--socket-path",
                str(self.root / "w.sock"),
                "--tls-ca-file",
                f"{now}/ca.crt",
                "--tls-certificate-file",
                f"{now}/tls.crt",
                "--tls-key-file",
                f"{now}/tls.key",
            ],
            self.root / "impostor.log",
        )
        self.addCleanup(worker.stop)
        self.wait_until(
            "the impostor is refused",
            lambda: "spiffe://remesh.local/worker/host-0 may not call Attach for "
            "workers/host-9" in worker.log.read_text(),
        )
        self.assertIn("spiffe://DOMAIN/worker/host-9", worker.log.read_text())
        self.assertTrue(worker.alive())

    def test_3_a_worker_without_tls_is_told_what_is_missing(self):
        log = self.worker_log("plain", self.cluster.server_address, [], "not attached")
        self.assertIn(
            "if it speaks TLS, set tls_ca_file, tls_certificate_file and tls_key_file; else", log
        )

    def test_3_a_server_without_tls_is_named(self):
        journal = self.root / "plain.db"
        server = Process(
            "plain-server",
            [
                str(harness.BIN_DIR / "remesh-server"),
                "--listen-address",
                "127.0.0.1:0",
                "--metrics-address",
                "",
                "--journal-path",
                str(journal),
                "--port-file",
                str(self.root / "plain.port"),
            ],
            self.root / "plain-server.log",
        )
        self.addCleanup(server.stop)
        ports = self.root / "plain.port"
        self.wait_until("the server without TLS listens", ports.exists)
        address = f"127.0.0.1:{re.search('listen_port: ([0-9]+)', ports.read_text()).group(1)}"
        now = self.folders["worker/host-0"].now
        flags = [
            "--tls-ca-file",
            f"{now}/ca.crt",
            "--tls-certificate-file",
            f"{now}/tls.crt",
            "--tls-key-file",
            f"{now}/tls.key",
        ]
        self.assertIn(
            "it does not speak TLS; leave out tls_ca_file, tls_certificate_file and tls_key_file, "
            "or",
            self.worker_log("tls", address, flags, "not attached"),
        )
        tls = self.folders["admin/test"].tls()
        self.assertIn(
            "it does not speak TLS; leave out --tls-ca, --tls-cert and --tls-key, or",
            self.remeshctl("states", "list", tls=tls, server=address),
        )
        with self.assertRaises(grpc.RpcError) as refused:
            get_state(ServerConnection(address, FRESH, tls))
        self.assertIn(
            "the server does not speak TLS: leave out REMESH_TLS_CA",
            errors.describe(refused.exception),
        )

    def worker_log(self, name, server, flags, wanted):
        """What a worker of its own says that dials `server`, once it has said `wanted`."""
        worker = Process(
            name,
            [
                str(harness.BIN_DIR / "remesh-worker"),
                "--host",
                name,
                "--server-address",
                server,
                "--device-ids",
                "91",
                "--buffer-directory",
                str(self.root / f"{name}-buffers"),
                "--socket-path",
                str(self.root / f"{name}.sock"),
                "--metrics-address",
                "",
                *flags,
            ],
            self.root / f"{name}.log",
        )
        self.addCleanup(worker.stop)
        self.wait_until(f"{name} says: {wanted}", lambda: wanted in worker.log.read_text())
        return worker.log.read_text()

    def test_4_bad_files_keep_the_old_ones(self):
        folder = self.folders["server"]
        good = folder.now.resolve()
        for count, (name, text) in enumerate(
            (("tls.key", "garbage"), ("ca.crt", "garbage"), ("tls.key", None)), start=1
        ):
            bad = folder.begin()
            shutil.copytree(good, bad, dirs_exist_ok=True)
            (bad / name).write_text(text or (self.folders["admin/test"].now / name).read_text())
            folder.flip(bad)
            self.reload(["server"], "refused", count)
            self.get_state_by_new_channel(self.TLS)
        folder.flip(good)
        self.assertIn(
            "new certificates are refused, the old ones stay in force",
            self.cluster.server.log.read_text(),
        )

    def test_5_the_server_does_not_start_on_bad_files(self):
        files = self.folders["server"].now
        done = subprocess.run(
            [
                harness.BIN_DIR / "remesh-server",
                "--listen-address",
                "127.0.0.1:0",
                "--metrics-address",
                "",
                "--journal-path",
                str(self.root / "j.db"),
                "--tls-certificate-file",
                f"{files}/tls.crt",
                "--tls-client-ca-file",
                f"{files}/ca.crt",
                "--tls-key-file",
                str(self.folders["admin/test"].now / "tls.key"),
            ],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("must be the key of the certificate in tls_certificate_file", done.stderr)

    def test_5_keys_are_not_sent_in_the_clear(self):
        done = subprocess.run(
            [
                harness.BIN_DIR / "remesh-server",
                "--check-config",
                "--data-encryption",
                "aes-256-gcm",
            ],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('data_encryption: value "aes-256-gcm" needs TLS', done.stdout + done.stderr)

    def test_6_another_ca_under_load(self):
        load = Load(self.cluster.server_address, self.TLS)
        everybody = ["server", *self.cluster.host_names]
        own = [
            self.folders[path]
            for path in (
                "server",
                "worker/host-0",
                "worker/host-1",
                "job/tls/trainer",
                "admin/test",
            )
        ]
        for count, change in enumerate(
            (
                lambda f: f.trust(self.first, self.second),
                lambda f: f.write(self.second, self.first, self.second),
                lambda f: f.trust(self.second),
            ),
            start=1,
        ):
            for folder in own:
                change(folder)
            self.reload(everybody, "reloaded", count)
            load.wait_calls(CALLS_LEAST * count // 3)
        calls, failed = load.stop()
        print(f"rotation: {calls} calls, {len(failed)} failed", flush=True)
        self.assertEqual(failed, [])
        self.assertGreaterEqual(calls, CALLS_LEAST)
        # Only the second CA is left: everybody comes back with what it signed.
        self.cluster.stop_server()
        self.cluster.start_server()
        self.cluster.wait_workers()
        arrays = [harness.Array("w", "f32", (64, 64))]
        self.move(STATE, 2, harness.targets(arrays, harness.text_sharding(ROWS, 0, 1, 2, 3)))
        self.check_everywhere(STATE, 3, arrays)
        self.assertGreater(
            self.metric("server", "remesh_tls_certificate_expiry_timestamp_seconds"), time.time()
        )

    def get_state_by_new_channel(self, tls) -> state_pb2.State:
        """Over a connection of its own."""
        return get_state(ServerConnection(self.cluster.server_address, FRESH, tls))


def get_state(connection: ServerConnection) -> state_pb2.State:
    return state_pb2_grpc.StateServiceStub(connection.channel()).GetState(
        state_pb2.GetStateRequest(name=STATE), timeout=10
    )


class Load:
    """Calls without end from two threads: one over connections of their own, one over a connection
    that follows the files."""

    def __init__(self, address: str, tls):
        self._calls, self._failed, self._stopping = 0, [], False
        lasting = ServerConnection(address, FRESH, tls)
        self._threads = [
            threading.Thread(target=self._run, args=(make,))
            for make in (lambda: lasting, lambda: ServerConnection(address, FRESH, tls))
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, make) -> None:
        while not self._stopping:
            try:
                get_state(make())
            except (grpc.RpcError, OSError, ValueError) as error:
                self._failed.append(str(error))
            self._calls += 1

    def wait_calls(self, count: int) -> None:
        give_up = time.monotonic() + 60
        while self._calls < count and time.monotonic() < give_up:
            time.sleep(0.01)

    def stop(self):
        self._stopping = True
        for thread in self._threads:
            thread.join()
        return self._calls, self._failed


if __name__ == "__main__":
    unittest.main()
