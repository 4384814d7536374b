"""How ranks of Penstock's libnccl.so.2 meet, by the pool and by TCP; the errors if they cannot; and its pool memory."""

import os
import random
import signal
import socket
import struct
import subprocess
import time
import unittest

from nccl_ranks import BUILD, LIBRARY
from support import PROGRAMS, Case, clean_environment, free_port

MAGIC = 0x31302d4c43434e50  # Question::our_magic
QUESTION = struct.Struct("<QQQiiI92s")
ANSWER = struct.Struct("<QQQ1000s1000s")


class NcclMeeting(Case):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "nccl_meetings"
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", PROGRAMS / "nccl_meetings.c", "-o", self.program,
                        f"-L{LIBRARY}", "-l:libnccl.so.2", f"-Wl,-rpath,{LIBRARY}", f"-Wl,-rpath-link,{BUILD}/lib"], check=True)

    def start_rank(self, rank, ranks, what, **more):
        more = {"NCCL_SOCKET_IFNAME": "lo"} | more
        return subprocess.Popen([self.program, str(rank), str(ranks), self.folder, what], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=clean_environment(**more))

    def ranks(self, number, what, **more):
        return self.outcomes([self.start_rank(rank, number, what, **more) for rank in range(number)])

    def all_well(self, said):
        words = "\n".join(f"rank {rank}: {err}" for rank, (_, _, err) in enumerate(said))
        for status, out, _ in said:
            self.assertEqual((status, out), (0, "no error: \n"), words)

    def unique_id(self):
        """Reads rank 0's file: the key, and the address where it listens ("" if nowhere)."""
        file = self.folder / "id"
        self.wait_for(file.exists, "the unique id")
        family, port = struct.unpack_from("<HH", file.read_bytes(), 24)
        return struct.unpack_from("<Q", file.read_bytes(), 8)[0], ("127.0.0.1", port) if family == socket.AF_INET else None

    def test_who_comes_late_is_told_at_once(self):
        for pool in ({}, {"PENSTOCK_POOL": self.pool()}, {"PENSTOCK_POOL": self.pool("64M", "simulated"), "PENSTOCK_NODES": 3}):
            said = self.ranks(3, "late", **pool)
            self.assertRegex(said[0][1], r"^remote process exited.*rank 1 \(pid \d+ on host .*died before all of 3 ranks")
            self.assertRegex(said[2][1], r"^remote process exited.*rank 0 \(pid \d+ on host .*has given up: .*rank 1 \(pid \d+ .*died")
            for name in ("id", "given_up", "told"):
                (self.folder / name).unlink()

    def test_death_at_any_moment_is_told(self):
        """The rank dies after it has arrived: before, no other rank knows of it."""
        chance = random.Random(7)
        for turn in range(6):
            pool = self.pool("64M", "simulated" if turn % 2 else "software")
            with self.subTest(turn=turn):
                jobs = [self.start_rank(rank, 3, "gated", PENSTOCK_POOL=pool, PENSTOCK_NODES=3) for rank in range(3)]
                self.wait_for(lambda: "penstock.nccl." in self.penstock("pool", "ls", "--all", pool).stdout, "rank 1 has come")
                time.sleep(0.5)
                (self.folder / "go").touch()
                time.sleep(chance.uniform(0, 0.15))
                jobs[1].kill()
                for rank, (status, out, err) in enumerate(self.outcomes(jobs, 60)):
                    if rank != 1 and (status, out) != (0, "no error: \n"):
                        self.assertRegex(out + err, r"remote process exited.*rank [012] ", (status, out, err))
                for name in ("id", "go"):
                    (self.folder / name).unlink()

    def test_a_rank_that_cannot_tells_the_others(self):
        for pool in ({}, {"PENSTOCK_POOL": self.pool("64M", "simulated"), "PENSTOCK_NODES": 2}):
            said = self.outcomes([self.start_rank(0, 2, "come", **pool), self.start_rank(1, 2, "come", PENSTOCK_NCCL_LOCAL="/nowhere", **pool)])
            self.assertIn("PENSTOCK_NCCL_LOCAL: /nowhere: cannot open", said[1][1])
            # After the other rank has gone, only its death can be reported.
            self.assertRegex(said[0][1], r"^remote process exited.*rank 1 \(pid \d+")
            (self.folder / "id").unlink()

    def test_abort_before_the_first_call(self):
        """The process that gave up continues to live."""
        said = self.ranks(2, "give_up", PENSTOCK_TIMEOUT_MS=5000)
        self.assertRegex(said[0][1], r"^remote process exited.*rank 1 \(pid \d+ .*has given the .*up")

    def test_forked_children_ask_their_parent(self):
        self.all_well(self.outcomes([self.start_rank(0, 3, "forked")]))

    def test_a_named_pool_needs_no_port(self):
        self.all_well(self.ranks(2, "come", PENSTOCK_POOL=self.pool(), NCCL_SOCKET_IFNAME="none"))
        self.assertIsNone(self.unique_id()[1])

    def test_an_interface_that_is_none_is_refused(self):
        for wish in ("none", "^lo,^", "=l", "^=lo"):
            with self.subTest(wish=wish):
                said = self.outcomes([self.start_rank(0, 1, "come", NCCL_SOCKET_IFNAME=wish)])
                if wish.startswith("^") and said[0][0] == 0:
                    continue  # another process listens there
                self.assertIn("set NCCL_SOCKET_IFNAME to one that `ip addr` shows", said[0][2])

    def test_all_know_an_address(self):
        address = f"127.0.0.1:{free_port()}"
        others = [self.start_rank(rank, 3, "come", NCCL_COMM_ID=address) for rank in (1, 2)]
        time.sleep(0.3)  # they arrive before the root listens
        self.all_well(self.outcomes([*others, self.start_rank(0, 3, "come", NCCL_COMM_ID=address)]))
        pool = self.pool()
        self.all_well(self.ranks(2, "come", NCCL_COMM_ID=address, PENSTOCK_POOL=pool))  # once more at the same port
        port = address.split(":")[1]
        for host in ("localhost", "[::1]") if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6") else ("localhost",):
            self.all_well(self.ranks(2, "come", NCCL_COMM_ID=f"{host}:{port}"))
        said = self.outcomes([self.start_rank(0, 2, "come", NCCL_COMM_ID="nowhere")])
        self.assertIn("NCCL_COMM_ID is 'nowhere'", said[0][2])
        self.assertIn("192.0.2.1:4000", said[0][2])
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            said = self.outcomes([self.start_rank(0, 2, "come", NCCL_COMM_ID=f"127.0.0.1:{taken.getsockname()[1]}")])
        self.assertIn("Address already in use", said[0][1])

    def test_ended_root_is_told_at_once(self):
        root, other = self.start_rank(0, 2, "without_root"), self.start_rank(1, 2, "without_root")
        root.wait()
        (self.folder / "ended").touch()
        said = self.outcomes([root, other])
        self.assertRegex(said[1][1], r"^remote process exited.*rank 1 does not reach .* at 127.0.0.1:\d+: Connection refused; has it ended\?")

    def question(self, address, key, **more):
        """Sends a question to the root and returns its answer; None: no answer."""
        fields = {"magic": MAGIC, "host": 99, "rank": 1, "ranks": 2, "names_pool": 0} | more
        with socket.create_connection(address, 20) as connection:
            connection.sendall(QUESTION.pack(fields["magic"], key, fields["host"], fields["rank"], fields["ranks"], fields["names_pool"], b"far away"))
            got = b"".join(iter(lambda: connection.recv(4096), b""))
        if not got:
            return None
        _, verdict, _, spec, words = ANSWER.unpack(got)
        return verdict, spec.rstrip(b"\0").decode(), words.rstrip(b"\0").decode()

    def test_tells_a_remote_rank_and_rank_0(self):
        for more, says in (({}, r"rank 1 runs on host far away.*penstock pool create SPEC.*penstock env --nccl"),
                           ({"names_pool": 1}, r"rank 1 on host far away names a pool by PENSTOCK_POOL.*everywhere, or nowhere")):
            with self.subTest(**more):
                rank = self.start_rank(0, 2, "come")
                key, address = self.unique_id()
                verdict, spec, words = self.question(address, key, **more)
                self.assertEqual((verdict, spec), (2, ""))
                self.assertRegex(words, says)
                self.assertRegex(self.outcomes([rank])[0][1], "^remote process exited.*" + says)
                (self.folder / "id").unlink()

    def test_what_a_stranger_sends_harms_nobody(self):
        rank = self.start_rank(0, 2, "come")
        key, address = self.unique_id()
        chance = random.Random(1)
        self.assertIsNone(self.question(address, key ^ 1))  # the right address, but a wrong key
        self.assertIsNone(self.question(address, key, magic=0))
        held = []
        for turn in range(300):  # more than are served at once
            held.append(socket.create_connection(address, 20))
            held[-1].sendall(chance.randbytes(chance.randrange(1, 400)))
            if turn % 3 == 0:
                held.pop().close()
        self.all_well(self.outcomes([self.start_rank(1, 2, "come"), rank]))
        for connection in held:
            connection.close()

    def test_a_crowd_of_strangers_keeps_nobody_out(self):
        """After a rank, more connections arrive at once than the root serves."""
        rank = self.start_rank(0, 2, "come")
        key, address = self.unique_id()
        rank.send_signal(signal.SIGSTOP)
        with socket.create_connection(address, 20) as asking:
            asking.sendall(QUESTION.pack(MAGIC, key, 99, 1, 2, 0, b"far away"))
            held = [socket.create_connection(address, 20) for _ in range(400)]
            rank.send_signal(signal.SIGCONT)
            got = b"".join(iter(lambda: asking.recv(4096), b""))
        for connection in held:
            connection.close()
        self.outcomes([rank])
        self.assertEqual(len(got), ANSWER.size)

    def test_port_of_another_program_is_no_root(self):
        rank = self.start_rank(0, 2, "come")
        self.unique_id()
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen(64)
            file = self.folder / "id"
            told = file.read_bytes()
            changed = bytearray(told)
            struct.pack_into("<H", changed, 26, stranger.getsockname()[1])
            file.write_bytes(changed)
            other = self.start_rank(1, 2, "come", PENSTOCK_TIMEOUT_MS=1500)  # it accepts and is silent
            said = self.outcomes([other])
        self.assertRegex(said[0][1], "^remote process exited.*does not reach the process that called ncclGetUniqueId")
        file.write_bytes(told)
        self.all_well(self.outcomes([self.start_rank(1, 2, "come"), rank]))

    def test_calls_that_do_not_block(self):
        for pool in ({}, {"PENSTOCK_POOL": self.pool("128M", "simulated"), "PENSTOCK_NODES": 3}):
            with self.subTest(pool=pool):
                self.all_well(self.ranks(3, "without_blocking", **pool))
                (self.folder / "id").unlink()

    def test_ending_one_by_one_is_silent(self):
        said = self.outcomes([self.start_rank(0, 4, "ends")])
        self.assertEqual(said, [(0, "no error: \n", "")])

    def test_memory_in_the_pool(self):
        self.all_well(self.ranks(2, "memory", PENSTOCK_NCCL_MEMORY="pool"))
        (self.folder / "id").unlink()
        for mode in ("software", "hardware", "simulated"):
            with self.subTest(mode=mode):
                pool = self.pool("256M", mode)
                said = self.ranks(3, "memory", PENSTOCK_NCCL_MEMORY="pool", PENSTOCK_POOL=pool, PENSTOCK_NODES=3, PENSTOCK_LOG="info")
                self.all_well(said)
                self.assertIn("in the pool: long collectives and messages take it where it lies", said[0][2])
                left = self.penstock("pool", "ls", "--all", pool).stdout
                self.assertNotIn("penstock.nccl", left)
                (self.folder / "id").unlink()
        said = self.ranks(1, "memory")
        self.assertEqual(said[0][0], 1)  # of the host: too much is refused too, and then it is none of a pool
        self.assertNotIn("SIZE_MAX", said[0][2])
        said = self.ranks(1, "memory", PENSTOCK_NCCL_MEMORY="elsewhere")
        self.assertIn("PENSTOCK_NCCL_MEMORY is 'elsewhere': set it to device or pool", said[0][2])


if __name__ == "__main__":
    unittest.main()
