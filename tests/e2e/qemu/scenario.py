"""What is done on the two hosts, alpha and beta, and what must come of it. Checked are contents and
words, never times; each wait has a deadline."""

import json
import re

from machines import Failure

ONE = "/dev/dax0.0"
BOTH = "/dev/penstock/0x1,/dev/penstock/0x2"  # links that devdax makes; dax numbers may change
LEASE_MS = 5000  # of the job that loses a host: short, and long enough for a machine that is emulated
TOOLS, SYSFS = ("", "tools"), ("--sysfs", "sysfs")  # options of devdax, and what it says
ONE_SIDED = ("one_sided latency --validate --op put,get,accumulate,fetch_and_op "
             "--sync pscw,fence,lock --sizes 8,4096 --iterations 10")


class Scenario:
    def __init__(self, alpha, beta, device_bytes, say):
        self.alpha, self.beta, self.device_bytes, self.say = alpha, beta, device_bytes, say

    def play(self):
        steps = [self.boot, self.doctor, self.one_device, self.meet, self.coherence,
                 self.two_devices, self.meet, self.wide_object, self.devices_go_and_return,
                 self.job_one_rank_a_host, self.job_two_ranks_a_host, self.one_sided, self.latency,
                 self.lose_a_host, self.clean_up_after_the_dead,
                 self.come_back, self.lose_a_host_unseen]
        for number, step in enumerate(steps, 1):
            self.say("", f"== {number}. {step.__name__.replace('_', ' ')}")
            step()
        return len(steps)

    @staticmethod
    def expect(command, *patterns, status=0, seconds=120):
        """The command ends with this status, and each pattern is found in what it said."""
        ended = command.wait(seconds)
        if ended != status:
            raise Failure(f"{command.host}: {command.text}: status {ended} instead of {status}")
        for pattern in patterns:
            if not re.search(pattern, command.output(), re.M):
                raise Failure(f"{command.host}: {command.text}: nothing like '{pattern}' was said")
        return command

    def info(self, machine, spec):
        said = self.expect(machine.start(f"penstock pool info --json {spec}")).output()
        return json.loads(said[said.index("{"):])

    def on_both(self, ranks, spec, program, *patterns, variables=""):
        """A job from alpha, with so many ranks on each host."""
        job = self.alpha.start(f"{variables} on-both {ranks} {spec} {program}".lstrip(), 300)
        if spec != "tcp":
            patterns += (rf"rank 0 of job \S+ uses pool {spec} .*provider penstock",)
        return self.expect(job, *patterns, seconds=300)

    # ---- steps ----

    def boot(self):
        self.alpha.boot()
        self.beta.boot()
        self.make_devices(self.alpha, TOOLS, SYSFS)
        self.make_devices(self.beta, SYSFS, TOOLS)

    def make_devices(self, machine, *ways):
        """Both ways to a devdax, so that both are known to work."""
        machine.ready()
        for number, (option, way) in enumerate(ways):
            self.expect(machine.start(f"devdax {option} --wait 20 up 0x{number + 1}"),
                        rf"^devdax: mem., serial number 0x{number + 1}: .*by {way}.*"
                        rf" /dev/dax{number}\.0, .* {self.device_bytes} bytes")

    def doctor(self):
        for machine in [self.alpha, self.beta]:
            self.expect(machine.start("penstock doctor"),
                        r"^ok +/dev/dax0\.0: .* devdax", r"^ok +/dev/dax1\.0: .* devdax",
                        r"^ok +MPI: MPICH .*libfabric")

    def one_device(self):
        self.expect(self.alpha.start(f"penstock pool create {ONE}"), "software coherence")
        seen = [self.info(machine, ONE) for machine in [self.alpha, self.beta]]
        if seen[0] != seen[1]:
            raise Failure(f"alpha and beta see different pools: {seen}")
        for machine in [self.alpha, self.beta]:
            self.expect(machine.start(f"penstock doctor {ONE}"), rf"^ok .* offers penstock for {ONE}")
        self.expect(self.beta.start(f"penstock pool create {BOTH}"), r"/dev/dax0\.0 holds a pool", status=1)
        self.spec = ONE

    def meet(self):
        """Arena, publish and observe, barrier, lock; a letter each way."""
        sides = [machine.start(f"PENSTOCK_POOL={self.spec} meeting letters {side}")
                 for side, machine in enumerate([self.alpha, self.beta])]
        self.expect(sides[0], "letter from side 1 are right", "100 turns", "meeting: ok")
        self.expect(sides[1], "letter from side 0 are right", "100 turns", "meeting: ok")

    def coherence(self):
        """The litmus test finds what is emulated: memory without caches before it."""
        sides = [machine.start(f"penstock doctor coherence {self.spec} --rounds 50")
                 for machine in [self.alpha, self.beta]]
        for side in sides:
            self.expect(side, "^between pid .* alpha.* beta|^between pid .* beta.* alpha",
                        "^ok +coherent: plain loads of one side see plain stores of the other")

    def two_devices(self):
        """Beta removes what alpha made; then a pool larger than one device."""
        self.expect(self.beta.start(f"penstock pool rm {ONE}"))
        self.expect(self.alpha.start(f"penstock pool info {ONE}"), "is not a Penstock pool", status=1)
        self.expect(self.beta.start(f"penstock pool create {BOTH}"), "created")
        info = self.info(self.alpha, BOTH)
        if info["bytes"] <= self.device_bytes:
            raise Failure(f"the pool of two devices has only {info['bytes']} bytes")
        self.expect(self.alpha.start(f"penstock pool info {ONE}"), "belongs to a pool of 2 parts",
                    status=1)
        self.spec = BOTH

    def wide_object(self):
        """It lies on both devices; the one host writes it, the other reads it."""
        self.wide = f"PENSTOCK_POOL={BOTH} wide plain {(self.device_bytes >> 20) + 64}"
        self.expect(self.alpha.start(f"{self.wide} write"), "wrote .* 0 wrong")
        self.expect(self.beta.start(f"penstock pool ls {BOTH}"), "^plain ")
        self.expect(self.beta.start(f"{self.wide} read"), "read .* 0 wrong")

    def devices_go_and_return(self):
        """Not while somebody uses them. What lies on them stays."""
        user = self.alpha.start(f"PENSTOCK_POOL={BOTH} meeting alone 0", 300)
        user.wait_for("side 0 is attached", 120)
        self.expect(self.alpha.start("devdax down 0x1"), r"in use by process \d+", status=1)
        self.expect(self.alpha.start("killall -9 meeting"))
        user.wait(60)
        self.expect(self.alpha.start(f"penstock pool gc {BOTH} --yes"), "freed: 1 dead process")
        self.expect(self.alpha.start("devdax down 0x1 && devdax --sysfs down 0x2"))
        self.expect(self.alpha.start(f"penstock pool info {BOTH}"), "no device /dev/penstock/0x1", status=1)
        self.expect(self.alpha.start("penstock doctor"),
                    r"CXL memory mem., serial number 0x1: .* in no region.*sudo /opt/penstock/lib/penstock/devdax up 0x1;")
        self.expect(self.alpha.start("devdax --sysfs up 0x1 && devdax up 0x2"))
        self.expect(self.alpha.start(f"{self.wide} take"), "read .* 0 wrong")

    def job_one_rank_a_host(self):
        self.on_both(1, BOTH, "job", "rank 0 of 2 is on alpha", "rank 1 of 2 is on beta",
                     "messages and collectives: ok on 2 ranks")
        self.on_both(1, BOTH, "ring")

    def job_two_ranks_a_host(self):
        self.on_both(2, BOTH, "job", "rank 1 of 4 is on alpha", "rank 2 of 4 is on beta",
                     "messages and collectives: ok on 4 ranks")

    def one_sided(self):
        info = {"variables": "PENSTOCK_LOG=info"}
        self.on_both(1, BOTH, ONE_SIDED, "^put pscw 8 ", "^fetch_and_op lock 8 ",
                     "a window of 2 ranks lies in the pool", **info)
        self.on_both(2, BOTH, "halo 64 64 20", "halo: ok: 4 ranks",
                     "a window of 4 ranks lies in the pool", **info)

    def latency(self):
        self.on_both(1, BOTH, "latency", "latency: 8 bytes: median")
        self.on_both(1, "tcp", "latency", "latency: 8 bytes: median")
        self.say("", "   (emulated in software: flushes are no-ops, nothing here tells of hardware)")

    def lose_a_host(self):
        """Beta's power fails in the middle of a job and of a meeting; alpha names who died."""
        lease = f"PENSTOCK_LEASE_MS={LEASE_MS}"
        beta = self.beta.start(f"PENSTOCK_POOL={BOTH} {lease} meeting held 0 stay", 300)
        alpha = self.alpha.start(f"PENSTOCK_POOL={BOTH} {lease} meeting held 1", 300)
        for waiting in [beta, alpha]:
            waiting.wait_for("letter from side . are right", 120)
        self.before = self.info(self.alpha, BOTH)
        job = self.alpha.start(f"{lease} on-both 1 {BOTH} job forever", 300)
        job.wait_for("messages and collectives: ok on 2 ranks", 120)
        for machine in [self.alpha, self.beta]:
            self.expect(machine.start(f"penstock ps {BOTH}"), r" alpha +\d+ +0 +alive ",
                        r" beta +\d+ +1 +alive ")
        self.expect(self.alpha.start(f"penstock pool rm {BOTH}"), r"in use: process \d+ of host",
                    status=1)
        self.say("", "   beta is killed")
        self.beta.kill()
        job.wait_for(r"rank 1 \(pid \d+ on host beta\b.*\) died", 120)
        self.expect(alpha, r"second meeting: .*participant 0 of 2 \(.*host beta.*\) died", status=1)
        if job.wait(120) == 0:
            raise Failure("a job that lost a host ended as if nothing had happened")

    def clean_up_after_the_dead(self):
        self.expect(self.alpha.start(f"penstock pool gc {BOTH} --yes"))
        after = self.info(self.alpha, BOTH)
        if (after["alive"], after["dead"]) != (0, 0):
            raise Failure(f"after gc {after['alive']} processes are alive and {after['dead']} dead")
        if after["bytes_used"] != self.before["bytes_used"]:
            raise Failure(f"{after['bytes_used']} bytes are used, before the job it was "
                          f"{self.before['bytes_used']}")

    def come_back(self):
        """Beta boots again, with the same machine id and another boot id."""
        self.beta.boot()
        self.make_devices(self.beta, SYSFS, TOOLS)
        self.info(self.beta, BOTH)
        self.meet()
        self.on_both(1, BOTH, "job", "rank 1 of 2 is on beta",
                     "messages and collectives: ok on 2 ranks")

    def lose_a_host_unseen(self):
        """Nobody else is attached when beta dies: gc watches for a lease and then frees."""
        alone = self.beta.start(f"PENSTOCK_POOL={BOTH} meeting alone 0", 300)
        alone.wait_for("side 0 is attached", 120)
        self.say("", "   beta is killed")
        self.beta.kill()
        self.expect(self.alpha.start(f"penstock pool gc {BOTH} --yes"), "freed: 1 dead process")
