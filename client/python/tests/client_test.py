# SPDX-License-Identifier: Apache-2.0
"""connect(), Client, State and Move against a server and a worker that only pretend."""

import os
import threading
import time
import traceback
import unittest
from unittest import mock

import grpc
import numpy as np

import fakes
import remesh
from fakes import STATE, abort
from remesh import buffers, errors, layout
from remesh.v1 import local_pb2, reshard_pb2, state_pb2, worker_pb2

REPLICATED = layout.replicated([4, 5])


def unavailable(context):
    context.abort(grpc.StatusCode.UNAVAILABLE, "going down")


def refused(reason, code=grpc.StatusCode.FAILED_PRECONDITION, **metadata):
    return lambda context: abort(context, code, "no", reason, **metadata)


class ClientTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.dict(os.environ, {"REMESH_CONFIG": "/nowhere"}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        stack = fakes.fakes()
        self.fakes = stack.__enter__()
        self.addCleanup(stack.__exit__, None, None, None)
        self.server, self.worker = self.fakes.server, self.fakes.worker
        self.client = remesh.connect(self.fakes.socket)
        self.addCleanup(self.client.close)

    def state(self) -> remesh.State:
        return self.client.state(STATE)

    # ---- connect ----

    def test_the_worker_says_all_that_is_needed(self):
        host = self.client.host
        self.assertEqual(
            (host.name, host.device_ids, host.server), ("host-0", (4, 5), self.fakes.address)
        )
        self.assertEqual(self.state().step, 3)

    def test_the_environment_names_socket_and_server(self):
        self.worker.scripts["GetHost"] = [
            local_pb2.GetHostResponse(host="host-0", server_address="10.255.255.1:1")
        ]
        with mock.patch.dict(
            os.environ, {"REMESH_SOCKET": self.fakes.socket, "REMESH_SERVER": self.fakes.address}
        ):
            with remesh.connect() as client:
                self.assertEqual(client.state(STATE).uid, "u")

    def test_an_older_worker_needs_the_servers_address(self):
        self.worker.scripts["GetHost"] = [
            lambda context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "")
        ]
        with self.assertRaisesRegex(
            ValueError, "server: value '' must be HOST:PORT: set REMESH_SOCKET or REMESH_SERVER"
        ):
            remesh.connect(self.fakes.socket)
        with remesh.connect(self.fakes.socket, self.fakes.address) as client:
            self.assertEqual((client.host.name, client.state(STATE).uid), ("", "u"))

    def test_a_controller_has_no_worker(self):
        with remesh.connect(server=self.fakes.address) as client:
            self.assertEqual(client.state(STATE).uid, "u")
            with self.assertRaisesRegex(
                errors.BadArgument, "socket: value '' must be the worker's socket"
            ):
                client.state(STATE).allocate()

    def test_no_worker_there(self):
        with self.assertRaises(errors.ServerAway):
            remesh.connect("/nowhere/socket", timeout=0.2)

    # ---- calls ----

    def test_a_restart_is_waited_out_by_one_request_id(self):
        self.server.scripts["CreateState"] = [unavailable, self.server.state]
        self.client.create(
            STATE, {"w": remesh.Array((4, 3), "bf16", REPLICATED)}, step=3, labels={"x": "y"}
        )
        first, second = self.server.of(state_pb2.CreateStateRequest)
        self.assertEqual(first, second)
        self.assertTrue(first.request_id and first.state.write_once)
        self.assertEqual((first.state.step, dict(first.state.labels)), (3, {"x": "y"}))

    def test_a_server_that_ignores_what_it_does_not_know_is_too_old(self):
        self.server.state.write_once = False
        with self.assertRaisesRegex(
            errors.ServerTooOld, "does not know states that are written once"
        ):
            self.client.create(STATE, {"w": remesh.Array((4, 3), "bf16", REPLICATED)})
        self.assertEqual(
            [one.name for one in self.server.of(state_pb2.DeleteStateRequest)],
            [STATE],
            "nothing may be left",
        )

    def test_errors_are_typed_on_one_line_without_grpc(self):
        self.server.scripts["GetState"] = [
            refused("STATE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, state=STATE)
        ]
        with self.assertRaises(errors.NotFound) as caught:
            self.state()
        self.assertEqual(str(caught.exception), f"NOT_FOUND (STATE_NOT_FOUND): no [state={STATE}]")
        text = "".join(traceback.format_exception(caught.exception))
        self.assertNotIn("grpc/", text)
        self.assertNotIn("During handling", text)

    def test_all_pages_are_read(self):
        pages = [
            state_pb2.ListStatesResponse(states=[state_pb2.State(name="1")], next_page_token="2"),
            state_pb2.ListStatesResponse(states=[state_pb2.State(name="2")]),
        ]
        self.server.scripts["ListStates"] = pages
        self.assertEqual([state.name for state in self.client.states("jobs/a")], ["1", "2"])
        asked = self.server.of(state_pb2.ListStatesRequest)
        self.assertEqual(
            [(one.page_token, one.view, one.parent) for one in asked],
            [
                ("", state_pb2.ListStatesRequest.BASIC, "jobs/a"),
                ("2", state_pb2.ListStatesRequest.BASIC, "jobs/a"),
            ],
        )
        self.server.scripts["ListWorkers"] = [
            worker_pb2.ListWorkersResponse(
                workers=[worker_pb2.Worker(name="a")], next_page_token="b"
            ),
            worker_pb2.ListWorkersResponse(workers=[worker_pb2.Worker(name="b")]),
        ]
        self.assertEqual([worker.name for worker in self.client.workers()], ["a", "b"])

    def test_nothing_works_after_close_which_may_be_repeated(self):
        state = self.state()
        self.client.close()
        self.client.close()
        for call in (self.state, state.refresh, state.allocate, lambda: list(self.client.states())):
            with self.assertRaises(errors.Closed):
                call()

    def test_a_call_that_another_thread_closes_is_closed(self):
        begun, raised = threading.Event(), []

        def hang(context):
            begun.set()
            while context.is_active():
                time.sleep(0.01)
            context.abort(grpc.StatusCode.CANCELLED, "")

        self.server.scripts["WatchState"] = [hang]

        def wait():
            try:
                state.wait_ready(60)
            except errors.RemeshError as error:
                raised.append(type(error))

        state = self.state()
        waiting = threading.Thread(target=wait)
        waiting.start()
        begun.wait(30)
        self.client.close()
        waiting.join(30)
        self.assertEqual(raised, [errors.Closed])

    def test_nothing_works_in_a_forked_child(self):
        state = self.state()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for call in (
                self.state,
                state.allocate,
                state.seal,
                state.wait_ready,
                lambda: state.reshard({"w": REPLICATED}),
            ):
                try:
                    call()
                except errors.ForkedError:
                    said.append("F")
                except BaseException:  # pylint: disable=broad-exception-caught
                    said.append("?")
            self.client.close()
            os.write(write, "".join(said).encode())
            os._exit(0)  # pylint: disable=protected-access
        os.waitpid(child, 0)
        self.assertEqual(os.read(read, 100), b"FFFFF")
        self.assertEqual(self.state().uid, "u")

    def test_threads_share_a_client(self):
        seen = []
        threads = [
            threading.Thread(target=lambda: seen.append(self.state().uid)) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(seen, ["u"] * 16)

    # ---- shards ----

    def test_what_is_written_lies_in_the_workers_file(self):
        content = np.arange(6, dtype=np.uint16).reshape(2, 3)
        shards = self.state().allocate()
        self.assertEqual(buffers.write([(shards[0], content)]), 12)
        self.assertEqual(self.worker.path.read_bytes()[64:76], content.tobytes())
        np.testing.assert_array_equal(shards[0].values(), content)
        self.assertEqual(shards[0].box, layout.Box((2, 0), (4, 3)))

    def test_every_call_sends_the_uid(self):
        state = self.state()
        state.allocate(devices=[4])
        state.seal()
        state.read()
        state.update(step=4)
        sent = [
            request
            for request in self.worker.requests
            if not isinstance(request, local_pb2.GetHostRequest)
        ]
        self.assertEqual([request.state_uid for request in sent], ["u"] * 3)
        self.assertEqual(list(sent[0].shards[0].devices), [4])
        self.assertEqual(
            [
                (request.uid, request.step)
                for request in self.server.of(state_pb2.UpdateStateRequest)
            ],
            [("u", 4)],
        )

    def test_a_process_learns_the_uid_from_its_worker(self):
        local = self.client.local(STATE)
        local.allocate()
        local.seal()
        self.assertEqual([request.state_uid for request in self.worker.requests[1:]], ["", "u"])

    def test_no_room_names_the_host(self):
        self.worker.scripts["Allocate"] = [
            refused(
                "MEMORY_EXHAUSTED",
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                needed_bytes="7",
                free_bytes="5",
            )
        ]
        with self.assertRaises(errors.NoRoom) as caught:
            self.state().allocate()
        self.assertEqual(
            (caught.exception.host, caught.exception.needed_bytes, caught.exception.free_bytes),
            ("host-0", 7, 5),
        )

    def test_a_wait_says_what_for(self):
        self.worker.scripts["GetShards"] = [
            lambda context: context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        ]
        with self.assertRaisesRegex(
            TimeoutError, f"waited until generation 2 of {STATE} is committed on this host, for 5 s"
        ):
            self.state().read(2, wait=5)

    def test_what_is_read_cannot_be_written_unless_it_is_private(self):
        shard = self.state().read()[0]
        with self.assertRaises(ValueError):
            shard.bytes[:] = 1
        private = self.state().read(private=True)[0]
        private.bytes[:] = 1
        self.assertEqual(self.worker.path.read_bytes(), bytes(128))

    def test_a_generation_that_is_retired_while_it_is_opened(self):
        gone = local_pb2.Shard()
        gone.CopyFrom(self.worker.shard)
        gone.path += ".gone"
        good = local_pb2.ShardsResponse(shards=[self.worker.shard])
        self.worker.scripts["GetShards"] = [local_pb2.ShardsResponse(shards=[gone]), good]
        self.assertEqual(len(self.state().read()), 1)
        self.worker.scripts["GetShards"] = [local_pb2.ShardsResponse(shards=[gone])]
        with self.assertRaises(errors.GenerationRetired):
            self.state().read()

    # ---- states and moves ----

    def test_a_state_of_the_same_name_is_another_one(self):
        state = self.state()
        self.server.state.uid = "v"
        for call in (state.refresh, state.wait_ready, state.delete):
            with self.assertRaises(errors.StateReplaced):
                call()
        self.assertEqual(self.server.of(state_pb2.DeleteStateRequest), [])

    def test_waiting_for_a_state_says_what_is_missing(self):
        waiting = state_pb2.State(
            name=STATE, uid="u", phase=state_pb2.State.BUILDING, unsealed_hosts=["host-1"]
        )

        def wait_long(context):
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "")

        self.server.scripts["WatchState"] = [waiting, wait_long]
        with self.assertRaisesRegex(
            errors.TimedOut, "is READY; it is BUILDING; not sealed on host-1"
        ):
            self.state().wait_ready(5)

    def test_deleting_names_those_who_were_away_and_can_be_repeated(self):
        state = self.state()
        self.assertEqual(state.delete(wait=2), ["host-1"])
        asked = self.server.of(state_pb2.DeleteStateRequest)[0]
        self.assertEqual((asked.wait, asked.uid), (True, state.uid))
        self.assertTrue(state.uid)
        self.server.scripts["GetState"] = [refused("STATE_NOT_FOUND", grpc.StatusCode.NOT_FOUND)]
        self.assertEqual(state.delete(), [])

    def test_a_move(self):
        seen = []
        moved = (
            self.state()
            .reshard({"w": REPLICATED}, lost=[7], lose_absent_hosts=True, deadline=9)
            .wait(progress=seen.append)
        )
        self.assertEqual((moved.generation, len(seen)), (2, 1))
        request = self.server.of(reshard_pb2.StartExecutionRequest)[0]
        self.assertEqual(
            (
                request.expected_generation,
                list(request.options.lost_device_ids),
                request.deadline.seconds,
            ),
            (1, [7], 9),
        )
        self.assertTrue(request.lose_absent_hosts and request.request_id)

    def test_a_layout_that_is_there_already_is_not_watched(self):
        self.server.scripts["StartExecution"] = [
            reshard_pb2.Execution(
                name="jobs/a/executions/2",
                phase=reshard_pb2.Execution.SUCCEEDED,
                source_generation=1,
                target_generation=1,
            )
        ]
        self.assertEqual(self.state().reshard({"w": REPLICATED}).wait().generation, 1)
        self.assertEqual(self.server.of(reshard_pb2.WatchExecutionRequest), [])

    def test_a_move_that_fails(self):
        self.server.scripts["WatchExecution"] = [
            reshard_pb2.Execution(name="jobs/a/executions/1", phase=reshard_pb2.Execution.FAILED)
        ]
        with self.assertRaisesRegex(
            errors.MoveFailed, "jobs/a/executions/1 ended in FAILED"
        ) as caught:
            self.state().reshard({"w": REPLICATED}).wait()
        self.assertEqual(caught.exception.execution.name, "jobs/a/executions/1")

    def test_an_unknown_array_is_named(self):
        with self.assertRaisesRegex(ValueError, f"targets: value 'x' must be an array of {STATE}"):
            self.state().reshard({"x": REPLICATED})

    def test_a_plan_moves_nothing(self):
        self.state().plan({"w": REPLICATED})
        self.assertTrue(self.server.of(reshard_pb2.StartExecutionRequest)[0].validate_only)


if __name__ == "__main__":
    unittest.main()
