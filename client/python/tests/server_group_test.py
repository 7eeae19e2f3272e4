# SPDX-License-Identifier: Apache-2.0
"""ServerGroup beside a fake server, for what a real one seldom does; and where a process finds its
rank."""

import concurrent.futures
import queue
import sys
import threading
import types
import unittest
from unittest import mock

import grpc
from fakes import Scripted, abort
from google.protobuf import empty_pb2
from waiting import wait_until

from remesh import errors, member_calls, server_group, step_agreement, world_place, world_session
from remesh.server_group import ServerGroup
from remesh.v1 import coordination_pb2 as pb
from remesh.v1 import coordination_pb2_grpc
from remesh.world_place import Place, place_of

SCOPE = "jobs/a/worlds/main"
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
FAILED = grpc.StatusCode.FAILED_PRECONDITION


def refusal(code, message, reason="", **metadata):
    """An answer of a script."""
    return lambda context: (
        abort(context, code, message, reason, **metadata)
        if reason
        else context.abort(code, message)
    )


def silence(context):
    """An answer of a script that comes when its caller has given up."""
    gone = threading.Event()
    if context.add_callback(gone.set):
        gone.wait()
    return pb.ExchangeResponse()


class FakeCoordination(Scripted, coordination_pb2_grpc.CoordinationServiceServicer):
    """A world of two, of which this process is 1. Streams end when `broken` is put into `events`;
    other items are sent."""

    def __init__(self):
        super().__init__()
        self.events = queue.Queue()
        self.joined = threading.Semaphore(0)

    def Join(self, request, context):
        formed = pb.WorldEvent.Formed(epoch=7, rank=request.rank)
        if not request.epoch:
            formed.members.extend(
                pb.WorldMember(rank=rank, host=f"host-{rank}") for rank in range(request.max_size)
            )
        first = self.answer("Join", request, context, pb.WorldEvent(formed=formed))
        yield first
        self.joined.release()
        while context.is_active():
            try:
                event = self.events.get(timeout=0.05)
            except queue.Empty:
                continue
            if event == "broken":
                context.abort(UNAVAILABLE, "going away")
            if event == "end":
                return
            yield event

    def Exchange(self, request, context):
        default = pb.ExchangeResponse(digest=b"d%d" % request.sequence)
        if request.contribution.mode == pb.Contribution.BROADCAST:
            default.payloads.append(request.contribution.payload)
        return self.answer("Exchange", request, context, default)

    def Leave(self, request, context):
        return self.answer("Leave", request, context, empty_pb2.Empty())

    def ReportPreemption(self, request, context):
        return self.answer("ReportPreemption", request, context, empty_pb2.Empty())


class ServerGroupTest(unittest.TestCase):
    def setUp(self):
        self.fake = FakeCoordination()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(self.fake, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.addCleanup(lambda: self.server.stop(0).wait())
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.addCleanup(self.channel.close)

    def group(self, place=Place(1, 2), **settings):
        group = ServerGroup(SCOPE, lambda: self.channel, place, **settings)
        self.addCleanup(group.close)
        return group

    def exchanges(self):
        return self.fake.of(pb.ExchangeRequest)

    def wait_joins(self, count):
        for _ in range(count):
            self.assertTrue(self.fake.joined.acquire(timeout=30))

    def test_what_it_joins_with(self):
        group = self.group(
            Place(1, 2, "run.3", 1), host="host-b", data=b"there", device_ids=[4, 5], forming=20
        )
        (join,) = self.fake.of(pb.JoinRequest)
        self.assertEqual(
            (group.rank, group.size, group.epoch, group.fence),
            (1, 2, 7, pb.Fence(scope=SCOPE, epoch=7)),
        )
        self.assertEqual(
            (join.scope, join.attempt, join.min_size, join.max_size, join.rank),
            (SCOPE, "run.3", 2, 2, 1),
        )
        self.assertEqual(
            (join.host, join.local_index, join.data, list(join.device_ids), join.epoch),
            ("host-b", 1, b"there", [4, 5], 0),
        )
        self.assertEqual(len(join.nonce), 16)
        self.assertTrue(0 < join.timeout.ToSeconds() <= 20)

    def test_every_round_has_a_deadline_and_its_number(self):
        group = self.group(deadline=50)
        group.barrier("a")
        group.agree("b", b"1")
        group.gather("c", b"x", to=0)
        asked = self.exchanges()
        self.assertEqual([each.sequence for each in asked], [0, 1, 2])
        for each in asked:
            self.assertTrue(0 < each.timeout.ToMilliseconds() <= 50_000)
        self.assertEqual(
            len(asked[1].contribution.payload), 32
        )  # digests of the structure and of one leaf

    def test_a_call_is_repeated_while_the_server_is_away(self):
        self.fake.scripts["Exchange"] = [
            refusal(UNAVAILABLE, "restarting"),
            refusal(UNAVAILABLE, "restarting"),
            pb.ExchangeResponse(digest=b"d"),
        ]
        group = self.group()
        group.barrier("a")
        first, second, third = self.exchanges()
        for each in (second, third):
            each.timeout.CopyFrom(first.timeout)
            self.assertEqual(each, first)

    def test_a_call_is_repeated_also_when_the_agreement_on_a_step_has_ended(self):
        self.fake.scripts["Exchange"] = [
            refusal(UNAVAILABLE, "restarting"),
            pb.ExchangeResponse(digest=b"d"),
        ]
        group = self.group()
        group.step_agreement().end()
        group.barrier("a")
        self.assertEqual([each.sequence for each in self.exchanges()], [0, 0])

    def test_a_report_of_a_preemption_is_repeated_while_the_server_does_not_answer(self):
        no_answer = lambda context: silence(context) and empty_pb2.Empty()
        self.fake.scripts["ReportPreemption"] = [no_answer, empty_pb2.Empty()]
        with mock.patch.object(step_agreement, "GRACE_SECONDS", 0.2):
            self.group().step_agreement().report("SIGTERM of process 1@host-1")
        reports = self.fake.of(pb.ReportPreemptionRequest)
        self.assertEqual([each.by for each in reports], ["SIGTERM of process 1@host-1"] * 2)

    def test_a_member_that_joins_again_tells_its_rounds_since_its_last_ok_one(self):
        group = self.group()
        self.wait_joins(1)
        self.fake.scripts["Exchange"] = [
            pb.ExchangeResponse(digest=b"old"),
            pb.ExchangeResponse(digest=b"d1"),
            refusal(FAILED, "differ", "VALUES_DIFFER"),
        ]
        group.barrier("a")
        group.gather("b", b"payload")
        with self.assertRaisesRegex(errors.ValuesDiffer, "differ"):
            group.agree("c", b"1")
        self.fake.events.put("broken")
        self.wait_joins(1)
        first, again = self.fake.of(pb.JoinRequest)
        self.assertEqual((again.epoch, again.rank, again.size, again.nonce), (7, 1, 2, first.nonce))
        self.assertEqual(
            [
                (each.sequence, each.outcome, each.message, each.digest, each.contribution.payload)
                for each in again.finished
            ],
            [(1, "OK", "", b"d1", b"payload"), (2, "VALUES_DIFFER", "differ", b"", b"")],
        )
        self.fake.scripts["Exchange"] = []
        group.barrier("d")
        self.assertEqual(self.exchanges()[-1].sequence, 3)

    # A server that restarted counts on what the member told: others may get another outcome.
    def test_an_answer_that_comes_after_the_member_told_that_it_has_none_is_asked_for_again(self):
        group = self.group()
        self.wait_joins(1)
        exchange = group._call  # pylint: disable=protected-access

        def held_up(*arguments):
            response = exchange(*arguments)
            if len(self.exchanges()) == 1:
                self.fake.events.put("broken")
                self.wait_joins(1)
            return response

        group._call = held_up  # pylint: disable=protected-access
        group.barrier("a")
        self.assertEqual([each.sequence for each in self.exchanges()], [0, 0])
        self.assertEqual(list(self.fake.of(pb.JoinRequest)[-1].finished), [])

    def test_a_call_that_comes_before_the_member_is_back_is_repeated(self):
        self.fake.scripts["Exchange"] = [
            refusal(UNAVAILABLE, "join first", "JOIN_AGAIN"),
            pb.ExchangeResponse(),
        ]
        self.group().barrier("a")
        self.assertEqual([each.sequence for each in self.exchanges()], [0, 0])

    def test_a_process_that_dies_is_named_in_the_call_and_in_every_later_one(self):
        self.fake.scripts["Exchange"] = [
            refusal(
                FAILED, "0@host-0 is lost: its stream ended", "MEMBER_LOST", rank="0", host="host-0"
            )
        ]
        group = self.group()
        for _ in range(2):
            with self.assertRaisesRegex(errors.MemberLost, "0@host-0 is lost") as raised:
                group.barrier("a")
            self.assertEqual((raised.exception.rank, raised.exception.host), (0, "host-0"))
        self.assertEqual(len(self.exchanges()), 1)

    def test_the_stream_says_who_is_lost(self):
        group = self.group()
        self.fake.events.put(
            pb.WorldEvent(
                member_lost=pb.WorldEvent.MemberLost(
                    rank=0, host="host-0", why="0@host-0 is lost: killed"
                )
            )
        )
        self.fake.events.put(
            pb.WorldEvent(over=pb.WorldEvent.Over(why="a member is lost", next_size=1))
        )
        self.fake.events.put("end")
        wait_until(group.failure, "the member learns that its world is over")
        with self.assertRaisesRegex(errors.MemberLost, "0@host-0 is lost: killed") as raised:
            group.barrier("a")
        self.assertEqual(raised.exception.metadata["next_size"], "1")
        group.close()
        self.assertEqual(self.fake.of(pb.LeaveRequest), [])  # there is nothing to leave
        self.assertEqual(len(self.fake.of(pb.JoinRequest)), 1)

    def test_an_earlier_world_ends_at_once(self):
        self.fake.scripts["Exchange"] = [
            refusal(FAILED, "epoch 7 is over", "STALE_EPOCH", epoch="9")
        ]
        with self.assertRaises(errors.StaleEpoch) as raised:
            self.group().barrier("a")
        self.assertEqual(raised.exception.epoch, 9)

    def test_a_time_out_names_who_was_absent_and_the_next_round_may_follow(self):
        self.fake.scripts["Exchange"] = [
            refusal(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "a: absent: 0@host-0",
                "BARRIER_TIMEOUT",
                absent="0@host-0",
            ),
            pb.ExchangeResponse(),
        ]
        group = self.group()
        with self.assertRaises(errors.BarrierTimeout) as raised:
            group.barrier("a")
        self.assertEqual(raised.exception.absent, [0])
        group.barrier("b")
        self.assertEqual([each.sequence for each in self.exchanges()], [0, 1])

    def test_a_server_that_does_not_answer_ends_the_group(self):
        self.fake.scripts["Exchange"] = [silence]
        group = self.group(deadline=0.2)
        with mock.patch.object(member_calls, "GRACE_SECONDS", 0.2), self.assertRaises(
            errors.ServerAway
        ):
            group.barrier("a")
        with self.assertRaises(errors.ServerAway):
            group.barrier("b")

    def test_a_long_broadcast_takes_several_rounds(self):
        with mock.patch.object(server_group, "_PAYLOAD_BYTES", 10):
            self.assertEqual(
                self.group().broadcast("a", bytes(range(25)), root=1), bytes(range(25))
            )
            self.assertEqual(
                [len(each.contribution.payload) for each in self.exchanges()], [10, 10, 10, 3]
            )
            with self.assertRaisesRegex(errors.TooLarge, "a payload of 11 bytes"):
                self.group().gather("a", bytes(11))

    def test_leaves_are_agreed_on_by_at_most_64_groups(self):
        self.assertEqual(len(server_group.leaf_groups(1)), 1)
        for count in (0, 1, 63, 64, 65, 1000, 6401):
            groups = server_group.leaf_groups(count)
            self.assertLessEqual(len(groups), 64)
            self.assertEqual(
                [leaf for each in groups for leaf in range(count)[each]], list(range(count))
            )
        group = self.group()
        for leaves in ([b"ab", b"c"], [b"a", b"bc"]):
            group.agree_on("a", b"tree", leaves)
        one, other = (each.contribution.payload for each in self.exchanges())
        self.assertEqual(one[:16], other[:16])
        self.assertNotEqual(one[16:], other[16:])

    def test_the_leaf_that_differs_is_found_by_further_rounds(self):
        differs = lambda group: refusal(FAILED, f"group {group}", "VALUES_DIFFER", group=str(group))
        self.fake.scripts["Exchange"] = [differs(9), differs(3), pb.ExchangeResponse()]
        group = self.group()
        with self.assertRaisesRegex(errors.ValuesDiffer, r"group 3 \(leaf 147 of 1024\)"):
            group.agree_on("a", b"tree", [b"%d" % leaf for leaf in range(1024)])
        names = [each.contribution.name for each in self.exchanges()]
        self.assertEqual(names, ["a", "a: leaves 144 to 159"])
        self.fake.scripts["Exchange"] = [differs(0)]
        with self.assertRaisesRegex(errors.ValuesDiffer, r"group 0 \["):
            group.agree("a", b"1")

    def test_a_living_member_of_an_earlier_start_is_waited_for_and_then_named(self):
        taken = refusal(
            grpc.StatusCode.ALREADY_EXISTS, "rank 1 is taken", "RANK_TAKEN", host="host-1", pid="77"
        )
        formed = pb.WorldEvent(
            formed=pb.WorldEvent.Formed(
                epoch=8, rank=1, members=[pb.WorldMember(), pb.WorldMember()]
            )
        )
        self.fake.scripts["Join"] = [taken, taken, formed]
        self.assertEqual(self.group().epoch, 8)
        self.fake.scripts["Join"] = [taken]
        with mock.patch.object(world_session, "_TAKEN_SECONDS", 0.3), self.assertRaises(
            errors.RankTaken
        ) as raised:
            self.group()
        self.assertEqual((raised.exception.host, raised.exception.pid), ("host-1", 77))

    def test_an_older_server_is_named(self):
        self.fake.scripts["Join"] = [refusal(grpc.StatusCode.UNIMPLEMENTED, "")]
        with self.assertRaisesRegex(errors.ServerTooOld, "CoordinationService"):
            self.group()

    def test_a_world_that_does_not_form_names_who_is_absent(self):
        self.fake.scripts["Join"] = [
            refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "absent: 0", "WORLD_TIMEOUT", absent="0")
        ]
        with self.assertRaises(errors.BarrierTimeout) as raised:
            self.group(forming=1)
        self.assertEqual(raised.exception.absent, [0])

    def test_without_a_server_it_ends_at_the_deadline(self):
        self.server.stop(0).wait()
        with self.assertRaises(errors.ServerAway):
            self.group(forming=0.5)

    def test_a_stream_that_is_silent_is_replaced(self):
        with mock.patch.object(world_session, "_SILENCE_SECONDS", 0.3):
            self.group()
            self.wait_joins(2)
        self.assertEqual(self.fake.of(pb.JoinRequest)[1].epoch, 7)

    def test_it_leaves_once(self):
        group = self.group()
        group.close()
        group.close()
        (leave,) = self.fake.of(pb.LeaveRequest)
        self.assertEqual((leave.scope, leave.epoch, leave.rank), (SCOPE, 7, 1))
        with self.assertRaises(errors.Closed):
            group.barrier("a")

    def test_a_deadline_is_never_infinite(self):
        for deadline in (0, -1, float("inf"), 90_000):
            with self.assertRaisesRegex(errors.BadArgument, "deadline"):
                self.group(deadline=deadline)
        with self.assertRaisesRegex(errors.BadArgument, "deadline"):
            self.group().barrier("a", deadline=float("inf"))

    def test_rounds_that_always_fail_do_not_pile_up(self):
        self.fake.scripts["Exchange"] = [refusal(FAILED, "names", "NAME_MISMATCH")]
        group = self.group()
        with mock.patch.object(server_group, "_FAILURES", 3):
            for _ in range(4):
                with self.assertRaises(errors.NameMismatch):
                    group.barrier("a")
        with self.assertRaisesRegex(errors.WorldOver, "3 rounds in a row failed"):
            group.barrier("a")


class PlaceTest(unittest.TestCase):
    TABLE = (
        ({}, None, Place(0, 1)),
        ({}, (2, 3), Place(2, 3)),
        ({"RANK": "1", "WORLD_SIZE": "4"}, (2, 3), Place(1, 4)),
        (
            {
                "RANK": "1",
                "WORLD_SIZE": "4",
                "LOCAL_RANK": "1",
                "TORCHELASTIC_RUN_ID": "r",
                "TORCHELASTIC_RESTART_COUNT": "2",
            },
            None,
            Place(1, 4, "r.2", 1),
        ),
        ({"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "r"}, None, Place(0, 2, "r.0")),
        (
            {
                "REMESH_RANK": "3",
                "REMESH_WORLD_SIZE": "5",
                "REMESH_ATTEMPT": "x.1",
                "RANK": "0",
                "WORLD_SIZE": "1",
            },
            None,
            Place(3, 5, "x.1"),
        ),
        (
            {"REMESH_RANK": "0", "REMESH_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "r"},
            None,
            Place(0, 2, ""),
        ),
        ({"WORLD_SIZE": "1"}, (2, 3), Place(0, 1)),
    )
    REFUSED = (
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK: value '4'"),
        ({"RANK": "1"}, "RANK: value '1'"),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "RANK: value '-1'"),
        ({"REMESH_RANK": "one", "REMESH_WORLD_SIZE": "4"}, "REMESH_RANK: value 'one'"),
        ({"RANK": "0", "WORLD_SIZE": "many"}, "WORLD_SIZE: value 'many'"),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "x"}, "LOCAL_RANK: value 'x'"),
    )

    def test_the_launcher_says_it_first_then_jax(self):
        for environment, jax_place, place in self.TABLE:
            with self.subTest(environment=environment):
                self.assertEqual(place_of(environment, jax_place), place)

    def test_what_cannot_be_is_named(self):
        for environment, text in self.REFUSED:
            with self.subTest(environment=environment), self.assertRaisesRegex(
                errors.BadArgument, text
            ):
                place_of(environment)

    def test_jax_is_asked_only_if_it_is_initialized(self):
        asked = []
        jax = types.SimpleNamespace(
            distributed=types.SimpleNamespace(is_initialized=lambda: False),
            process_index=lambda: asked.append(1),
            process_count=lambda: asked.append(1),
        )
        with mock.patch.dict(sys.modules, jax=jax), mock.patch.dict("os.environ", clear=True):
            self.assertEqual(world_place.present_place(), Place(0, 1))
        self.assertEqual(asked, [])
        jax.distributed.is_initialized, jax.process_index, jax.process_count = (
            lambda: True,
            lambda: 1,
            lambda: 2,
        )
        with mock.patch.dict(sys.modules, jax=jax), mock.patch.dict("os.environ", clear=True):
            self.assertEqual(world_place.present_place(), Place(1, 2))


if __name__ == "__main__":
    unittest.main()
