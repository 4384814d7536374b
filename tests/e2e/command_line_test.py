"""Tests command lines that people type: spellings of other launchers, typing errors, nothing at all."""

import json
import os
import select
import signal
import subprocess
import time
import unittest

from support import NOBODY, PENSTOCK, PROGRAMS, PYTHON, SHM, SOURCE, Case, clean_environment, unique


class Words(Case):
    def test_a_misspelt_subcommand_gets_a_suggestion(self):
        for typed, meant in ((["docter"], "doctor"), (["pool", "craete", "x"], "create"), (["benchmark"], "bench")):
            done = self.penstock(*typed, status=2)
            self.assertIn(f"did you mean '{meant}'?", done.stderr)
        self.assertNotIn("did you mean", self.penstock("paint", status=2).stderr)
        self.assertIn("did you mean 'coherence'?", self.penstock("doctor", "coherance", status=2).stderr)

    def test_a_misspelt_option_gets_a_suggestion(self):
        for typed, meant in ((["ps", "--jsn"], "--json"), (["--verson"], "--version"), (["pool", "ls", "--jason=1"], "--json"),
                             (["pool", "create", "shm:x", "--siz", "1G"], "--size"), (["doctor", "--mpiexe", "x"], "--mpiexec"),
                             (["run", "-n", "2", "--node", "2", "true"], "--nodes"), (["env", "--mpy", "intel"], "--mpi"),
                             (["bench", "limits", "--round", "3"], "--rounds")):
            done = self.penstock(*typed, status=2)
            self.assertIn(f"did you mean '{meant}'?", done.stderr, typed)
            if typed[0] != "env":  # a shell reads its output, perhaps much later
                self.assertNotIn("did you mean", done.stdout)
        self.refused("env", "--mpi", "opnmpi", says="did you mean openmpi?", status=2)
        self.refused("pool", "create", f"shm:{unique('none')}", "--size", "32M", "--mode", "sofware",
                     says="did you mean software?", status=2)
        self.assertIn("see 'penstock pool ls --help'", self.penstock("pool", "ls", "--jsn", status=2).stderr)
        self.assertNotIn("did you mean", self.penstock("ps", "--xylophone", status=2).stderr)

    def test_help_in_either_order(self):
        for words in (["ps"], ["pool", "create"], []):
            self.assertEqual(self.penstock("help", *words).stdout, self.penstock(*words, "--help").stdout)
        self.assertIn("did you mean 'doctor'?", self.penstock("help", "docter", status=2).stderr)
        self.assertIn("did you mean 'create'?", self.penstock("pool", "crate", "--help", status=2).stderr)
        self.assertRegex(self.penstock("--version").stdout, r"^penstock \d+\.\d+\.\d+\n$")

    def test_as_mpiexec_takes_them(self):
        program = ["--", PYTHON, PROGRAMS / "all_to_all.py"]
        for options in (["-np", "2"], ["--nodes", "1", "-np", "1"], ["--verbose", "-n", "2"]):
            self.assertIn("all to all: ok", self.penstock("run", *options, *program).stdout)
        done = self.penstock("run", "-n", "1", PYTHON, "-c",
                             "from mpi4py import MPI; import sys; print(sys.argv)", "-np", "3")
        self.assertIn("'-np', '3'", done.stdout)

    def test_one_of_a_thing_is_no_plural(self):
        done = self.penstock("run", "-n", "2", "--nodes", "1", "--stats", "--", PYTHON, PROGRAMS / "all_to_all.py")
        self.assertIn("2 ranks on 1 node sent", done.stderr)

    def test_nothing_is_accepted_in_silence(self):
        program = ["--", PYTHON, PROGRAMS / "all_to_all.py"]
        for nodes in ("0", "2147483648"):
            for words in (["run", "-n", "2", "--nodes", nodes, *program], ["env", "--mpi", "mpich", "--nodes", nodes]):
                self.refused(*words, says=f"--nodes: Value {nodes} not in range 1 to 1024", status=2)
        for command in (["run", "-n", "2"], ["env", "--mpi", "mpich"]):
            done = self.penstock(*command, "--pool", "", *(program if command[0] == "run" else []), status=2)
            self.assertIn("is empty: give a value, or leave it out", done.stderr)
        spec = self.pool("64M")
        self.refused("run", "-n", "2", "--pool", spec, "--size", "64M", *program, says=["--size", spec], status=2)
        self.refused("run", "-n", "2", "--size", "64M", *program, says=["PENSTOCK_POOL", spec], status=2,
                     fix="unset PENSTOCK_POOL", environment=clean_environment(PENSTOCK_POOL=spec))

    def test_variables_count(self):
        spec = self.pool("64M")
        named = clean_environment(PENSTOCK_POOL=spec)
        program = ["--", PYTHON, PROGRAMS / "all_to_all.py"]
        self.assertIn(f"pool {spec}", self.penstock("run", "-n", "2", "-v", *program, environment=named).stderr)
        self.assertIn(spec, self.penstock("pool", "info", environment=named).stdout)
        self.assertEqual(json.loads(self.penstock("ps", "--json", environment=named).stdout), [])
        self.refused("run", "-n", "2", "--pool", spec, *program, says=["software mode", "hardware"],
                     environment=clean_environment(PENSTOCK_MODE="hardware"))
        done = self.penstock("run", "-n", "2", "-v", *program, environment=clean_environment(PENSTOCK_MODE="hardware"))
        self.assertIn("hardware coherence", done.stderr)

    def test_a_full_device_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for command in (["env", "--list"], ["--help"], ["pool", "ls"]):
                done = subprocess.run([PENSTOCK, *command], stdout=full, stderr=subprocess.PIPE, text=True,
                                      env=clean_environment())
                self.assertEqual(done.returncode, 1, command)
                self.assertIn("cannot write the output: No space left on device", done.stderr)


def keys_of(facts):
    """The keys of all nested objects, except objects whose keys come from users or tables."""
    if isinstance(facts, list):
        return set().union(*map(keys_of, facts))
    if not isinstance(facts, dict):
        return set()
    return set(facts).union(*(keys_of(value) for key, value in facts.items() if key not in ("exports", "tables")))


class Output(Case):
    """Facts go to standard output, messages to standard error."""

    def facts(self, *words, status=0):
        """Runs a command with --json; checks that docs/command-line.md promises every key."""
        facts = json.loads(self.penstock(*words, "--json", status=status).stdout)
        promised = (SOURCE / "docs/command-line.md").read_text()
        benchmark = {"mode", "rounds", "ranks", "neighbours"} if words[0] == "bench" else set()
        for key in keys_of(facts) - benchmark:
            if words[:2] != ("bench", "limits"):
                self.assertIn(f"`{key}`", promised, words)
        return facts

    def test_json_is_all_there_is(self):
        spec = self.pool("64M")
        shapes = {("pool", "info", spec): {"spec", "alive", "bytes_used", "quarantine"}, ("pool", "gc", spec): {"dead", "freed"},
                  ("pool", "gc", spec, "--yes"): {"freed", "quarantine"}, ("doctor", spec): {"ok", "findings"},
                  ("env", "--mpi", "mpich", "--pool", spec): {"for", "exports", "notes"},
                  ("bench", "tune", "--print"): {"origin", "entries"},
                  ("pool", "rm", spec): {"removed"}, ("pool", "create", spec, "--size", "64M"): {"spec", "id", "reason"}}
        for words, keys in shapes.items():
            self.assertLessEqual(keys, set(self.facts(*words)), words)
        for words in (["pool", "ls"], ["pool", "ls", spec], ["ps"], ["ps", spec], ["ps", "--peers", spec], ["env", "--list"],
                      ["bench", "footprint", "--ranks", "4", "--neighbours", "2", "--size", "64M"],
                      ["bench", "limits", "--rounds", "1", "--size", "32M"]):
            self.assertIsInstance(self.facts(*words), list, words)
        created = self.facts("pool", "create", spec, "--overwrite")
        self.assertEqual({key: created[key] for key in created if key != "reason"},
                         {key: value for key, value in self.info(spec).items() if key in created})

    def test_json_of_what_fails(self):
        done = self.penstock("env", "--mpi", "mpich", "--pool", "shm:no-such-pool-of-the-tests", "--json", status=1)
        self.assertEqual(done.stdout, "")  # it is not for eval
        done = self.penstock("pool", "info", "--json", "shm:no-such-pool-of-the-tests", status=1)
        self.assertEqual(done.stdout, "")
        facts = self.facts("doctor", "shm:no-such-pool-of-the-tests", status=1)
        self.assertFalse(facts["ok"])
        self.assertEqual({f["verdict"] for f in facts["findings"]} - {"ok", "warn"}, {"fail"})

    def test_json_of_a_job(self):
        summary = self.folder / "job.json"
        done = self.penstock("run", "-n", "2", "--json", summary, "--", PYTHON, PROGRAMS / "all_to_all.py")
        self.assertIn("all to all: ok", done.stdout)
        facts = json.loads(summary.read_text())
        self.assertEqual((facts["status"], facts["ranks"], facts["nodes"], facts["transport"], facts["first_death"]),
                         (0, 2, 2, "penstock", None))
        self.assertGreater(facts["messages"], 0)
        self.penstock("run", "-n", "2", "--json", summary, "--", PYTHON, "-c",
                      "from mpi4py import MPI; import sys; MPI.Finalize(); sys.exit(7)", status=7)
        self.assertEqual(json.loads(summary.read_text())["status"], 7)
        ran = self.folder / "ran"
        self.refused("run", "-n", "1", "--json", "/proc/none", "--", "touch", ran, says="cannot write /proc/none")
        self.assertFalse(ran.exists(), "the job had run when its result could not be written")
        never = self.folder / "never.json"
        self.refused("run", "-n", "1", "--json", never, "--pool", "shm:no-such-pool-of-the-tests", "--", "true", says="absent")
        self.assertFalse(never.exists())

    def test_statuses(self):
        for status, words in ((0, ["--help"]), (0, ["pool", "ls"]), (1, ["pool", "info", "shm:no-such-pool-of-the-tests"]),
                              (2, []), (2, ["pool"]), (2, ["run", "-n", "x", "true"]), (2, ["ps", "--watch=soon"]),
                              (2, ["ps", "--watch=0"]), (2, ["pool", "ls", "one", "too-many"])):
            done = self.penstock(*words, status=status)
            if status == 2 and words:
                self.assertEqual(done.stdout, "", words)

    def test_vanished_reader_is_no_error(self):
        done = subprocess.run(["bash", "-c", f"{PENSTOCK} env --list | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True,
                              text=True, env=clean_environment())
        self.assertTrue(done.stdout.startswith("VARIABLE"), done.stdout)
        self.assertIn(done.stdout.split()[-1], ("0", "141"))
        self.assertEqual(done.stderr, "")

    def test_tables_are_aligned(self):
        for name in ("p", "quite-a-long-name"):
            self.pool("32M", spec=f"shm:{unique(name)}")
        lines = self.penstock("pool", "ls").stdout.splitlines()
        at = lines[0].index("COHERENCE")
        for line in lines[1:]:
            self.assertRegex(line[at:], "^(software|hardware|uncached|simulated) ")
            self.assertEqual(line, line.rstrip())

    def on_terminal(self, *arguments, seconds=100, until=None, **variables):
        """The output on a terminal of 100 columns; sends Ctrl-C once `until` is printed."""
        leader, follower = os.openpty()
        environment = clean_environment(**{"TERM": "xterm", **variables})
        process = subprocess.Popen([PENSTOCK, *arguments], stdin=follower, stdout=follower, stderr=follower,
                                   start_new_session=True, env=environment)
        os.close(follower)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said, deadline = b"", time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    said += os.read(leader, 65536)
                except OSError:  # its end
                    break
            if until and until in said:
                process.send_signal(signal.SIGINT)
                until = None
        os.close(leader)
        return process.wait(20), said.decode()

    def test_terminal_shows_what_the_job_carried(self):
        job = ["run", "-n", "2", "--", PYTHON, PROGRAMS / "all_to_all.py"]
        self.assertRegex(self.on_terminal(*job)[1], r"penstock run: 2 ranks on 2 nodes sent \d+ messages with .* through the pool")
        self.assertNotIn("penstock run:", self.penstock(*job).stderr)

    def test_colour_is_for_terminals(self):
        self.assertNotIn("\x1b[", self.penstock("doctor", status=None).stdout)
        self.assertIn("\x1b[32mok", self.on_terminal("doctor")[1])
        self.assertNotIn("\x1b[", self.on_terminal("doctor", NO_COLOR="1")[1])
        self.assertNotIn("\x1b[", self.on_terminal("doctor", TERM="dumb")[1])
        self.assertIn("\x1b[31merror:", self.on_terminal("pool", "info", "shm:no-such-pool-of-the-tests")[1])

    def test_watch_on_a_terminal(self):
        spec = self.pool("32M")
        status, said = self.on_terminal("ps", spec, "--watch=0.1", until=spec.encode())
        self.assertEqual(status, 0)
        self.assertTrue(said.startswith("\x1b[?1049h"), said)
        self.assertTrue(said.endswith("\x1b[?1049l"), said)


class Watch(Case):
    def test_blocks_and_the_end_of_the_pool(self):
        spec = self.pool("64M")
        job = self.start("run", "-n", "2", "--nodes", "2", "--pool", spec, "--", PYTHON, PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        watch = self.start("ps", "--watch", "0.1", spec)
        said = lambda part: self.wait_for(lambda: part in watch.stdout.readline(), part)
        said("RATE OUT")
        said(" B/s ")
        self.end(job)
        self.penstock("pool", "rm", "--force", spec)
        said("is absent")
        self.penstock("pool", "create", spec, "--size", "32M", "--mode", "software")
        said("RATE OUT")
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(20), 0)

    def test_lines_for_programs(self):
        spec = self.pool("64M")
        watch = self.start("ps", spec, "--watch=0.1", "--json")
        for _ in range(2):
            look = json.loads(watch.stdout.readline())
            self.assertEqual((look["error"], look["processes"]), (None, []))
        self.penstock("pool", "rm", spec)
        self.wait_for(lambda: "is absent" in (json.loads(watch.stdout.readline())["error"] or ""), "the pool's end")
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(20), 128 + signal.SIGTERM)

    def test_signals_end_it_during_a_look(self):
        spec = self.pool("32M")
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)):
            # the first look, before it watches, takes as long
            watch = self.start("ps", spec, "--traffic=1", "--watch=0.1", "--json")
            self.assertTrue(watch.stdout.readline())
            watch.send_signal(number)
            self.assertEqual(watch.wait(20), status)

    def test_a_full_device_ends_it(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PENSTOCK, "ps", "--watch=0.1"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=60, env=clean_environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write the output: No space left on device", done.stderr)

    def test_pool_absent_from_the_start(self):
        self.refused("ps", "--watch", "shm:no-such-pool-of-the-tests", says="is absent")


class Nodes(Case):
    def test_refuses_too_few_nodes_before_mpi_starts(self):
        # who made the pool is none of them any more
        spec = self.pool("64M", "software", "--nodes", "3")
        program = ["--", PYTHON, PROGRAMS / "all_to_all.py"]
        self.refused("run", "-n", "4", "--nodes", "4", "--pool", spec, *program,
                     says=["4 emulated nodes", "--nodes 3"], fix="--nodes 4")
        for _ in range(2):  # whoever has joined is no newcomer
            self.penstock("run", "-n", "3", "--nodes", "3", "--pool", spec, *program)


class Eval(Case):
    """eval "$(penstock env ...)" in a shell that continues after errors."""

    def evaluated(self, arguments, shell=("sh",), **more):
        return subprocess.run([*shell, "-c", f'eval "$({PENSTOCK} {arguments})"; echo it went on'],
                              capture_output=True, text=True, env=clean_environment(), **more)

    def test_it_stops_the_shell_when_it_fails(self):
        for arguments in ("env --mpi mpich --pool shm:no-such-pool", "env --mpi lam --pool shm:x", "env --mpy mpich",
                          "evn --mpi mpich", "env", "env --pool shm:x", "env --mpi mpich"):
            for shell in (("sh",), ("bash", "--norc", "-i")):
                done = self.evaluated(arguments, shell)
                self.assertNotIn("it went on", done.stdout, arguments)
                self.assertNotEqual(done.returncode, 0, arguments)
                self.assertIn("penstock: error:", done.stderr)

    def test_only_env_speaks_to_a_shell(self):
        for words in ([], ["pool"], ["pol", "info"], ["run", "-n", "2", "--", "env"]):
            self.assertNotIn("export", self.penstock(*words, status=None).stdout)
        self.assertEqual(self.penstock(status=None).stdout, "")

    def test_interactive_shell_continues_without_transport(self):
        typed = f'eval "$({PENSTOCK} env --mpi mpich --pool shm:none)"; echo same line\necho "next: $FI_PROVIDER"\n'
        done = subprocess.run(["bash", "--norc", "-i"], input=typed, capture_output=True, text=True,
                              env=clean_environment())
        self.assertNotIn("\nsame line", "\n" + done.stdout)
        self.assertIn("next: penstock-env-failed", done.stdout)

    def test_it_goes_on_when_it_works(self):
        spec = self.pool("32M")
        self.assertIn("it went on", self.evaluated(f"env --mpi mpich --pool {spec}").stdout)


class Owners(Case):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("making another user's pool needs root")

    def given_to(self, uid, gid, mode):
        spec = self.pool("64M")
        path = SHM / f"penstock.{spec.removeprefix('shm:')}"
        os.chown(path, uid, gid)
        path.chmod(mode)
        return spec

    def test_pools_of_others_are_refused_unless_named(self):
        spec = self.given_to(NOBODY, NOBODY, 0o660)
        program = ["--", PYTHON, PROGRAMS / "all_to_all.py"]
        fix = self.refused("run", "-n", "2", "--pool", spec, *program, says=["nobody", "0660"],
                            fix="--trust-owner nobody")
        self.assertIn(":nogroup", fix)
        self.refused("env", "--mpi", "mpich", "--pool", spec, says="nobody", fix="--trust-owner nobody")
        self.refused("pool", "gc", "--yes", spec, says="nobody", fix="--trust-owner nobody")
        for trusted in ("nobody", ":nogroup", str(NOBODY), "root,nobody"):
            self.penstock("run", "-n", "2", "--pool", spec, "--trust-owner", trusted, *program)
        done = self.penstock("env", "--mpi", "mpich", "--pool", spec, "--trust-owner", "nobody")
        self.assertIn("export PENSTOCK_TRUST_OWNER=nobody", done.stdout)
        self.assertNotIn("may read and change", self.penstock("doctor", spec, "--trust-owner", "nobody",
                                                              status=None).stdout)
        for unknown in ("no-such-user", ":no-such-group", "nobody,,root"):
            done = self.penstock("ps", spec, f"--trust-owner={unknown}", status=2)
            self.assertIn("is no user of this host", done.stderr, unknown)

    def test_pools_that_everybody_may_write_to(self):
        spec = self.given_to(0, 0, 0o666)
        self.refused("pool", "gc", "--yes", spec, says=["root:root 0666", "everybody"], fix="chmod o-rw")
        self.refused("pool", "gc", "--yes", spec, "--trust-owner", "root", says="everybody", fix="chmod o-rw")
        self.penstock("pool", "gc", "--yes", spec, "--trust-owner", "everybody")

    def test_pools_that_may_only_be_read(self):
        """Looking at them is allowed; a job is told before its MPI starts."""
        spec = self.given_to(0, 0, 0o644)
        as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.penstock("pool", "info", spec, **as_nobody)
        self.refused("env", "--mpi", "mpich", "--pool", spec, says="may not attach it", fix="chmod 0660", **as_nobody)
        self.refused("run", "-n", "2", "--pool", spec, "--", "/bin/true", says="may not attach it", fix="chmod 0660",
                     **as_nobody)
        done = self.penstock("doctor", spec, status=1, **as_nobody)
        self.assertRegex(done.stdout, "(?m)^fail .*may not attach it")

    def test_whoever_looks_is_warned(self):
        spec = self.given_to(NOBODY, NOBODY, 0o666)
        done = self.penstock("pool", "info", spec)
        self.assertIn("owner      nobody:nogroup 0666", done.stdout)
        self.assertIn("penstock: warn:", done.stderr)
        info = self.info(spec)
        self.assertEqual((info["owner"], info["group"], info["permissions"]), ("nobody", "nogroup", "0666"))
        done = self.penstock("doctor", spec, status=None)
        self.assertIn("nobody:nogroup 0666", done.stdout)
        self.assertRegex(done.stdout, "(?m)^warn .*everybody on this host")
        for command in (["pool", "info"], ["pool", "ls"], ["pool", "gc"], ["ps"], ["ps", "--peers"]):
            warned = self.penstock(*command, spec).stderr
            self.assertIn("everybody", warned, command)
            self.assertEqual(warned.count("penstock: warn:"), 1, command)
            self.assertEqual(self.penstock(*command, spec, "--trust-owner", "everybody").stderr, "", command)

    def test_unreadable_pools_are_one_line(self):
        specs = [self.given_to(0, 0, 0o600) for _ in range(2)]
        for command in (["pool", "ls"], ["ps"]):
            done = self.penstock(*command, user=NOBODY, group=NOBODY, extra_groups=[])
            lines = [line for line in done.stderr.splitlines() if "may not read" in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertTrue(all(spec in lines[0] for spec in specs), lines)


class Listing(Case):
    def test_which_pool(self):
        """None, one, several: of a host whose /dev/shm is its own."""
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            self.skipTest("a /dev/shm of one's own needs root")
        inside = ["unshare", "-m", "--", "sh", "-c"]
        def said(script):
            mounted = f"mount -t tmpfs tmpfs /dev/shm || exit 77; p={PENSTOCK}; {script}"
            done = subprocess.run([*inside, mounted], capture_output=True, text=True, env=clean_environment())
            if done.returncode == 77:
                self.skipTest(done.stderr)
            return done
        make = "$p pool create shm:{0} --size 32M >/dev/null; ".format
        for command in ("pool info", "ps --peers"):
            self.assertIn("no pool is named", said(f"$p {command}").stderr)
            self.assertEqual(said(make("one") + f"$p {command}").returncode, 0)
            done = said(make("one") + make("two") + f"$p {command}")
            self.assertEqual(done.returncode, 1)
            for part in ("of which pool?", "shm:one", "shm:two", f"penstock {command} SPEC"):
                self.assertIn(part, done.stderr)
        self.assertIn("shm:one", said(make("one") + "$p pool info").stdout)

    def test_pools_of_the_host(self):
        spec = self.pool("64M")
        row = [line for line in self.penstock("pool", "ls").stdout.splitlines() if line.startswith(f"{spec} ")][0]
        for part in ("64 MiB", "software", "0600"):
            self.assertIn(part, row)
        listed = {pool["spec"]: pool for pool in json.loads(self.penstock("pool", "ls", "--json").stdout)}
        self.assertEqual((listed[spec]["bytes"], listed[spec]["mode"]), (64 << 20, "software"))

    def waiting(self, spec, *options):
        job = self.start("run", "-n", "2", "--nodes", "2", "--pool", spec, *options, "--", PYTHON,
                         PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        return job

    def test_ps_finds_the_pools_in_use(self):
        spec, unused = self.pool("64M"), self.pool("32M")
        self.waiting(spec)
        listed = self.penstock("ps").stdout
        self.assertIn(f"pool {spec}\n", listed)
        self.assertNotIn(unused, listed)
        records = [r for r in json.loads(self.penstock("ps", "--json").stdout) if r["pool"] == spec]
        self.assertEqual(sorted((r["rank"], r["node"], r["emulated_node"]) for r in records), [(0, 0, 0), (1, 1, 1)])

    def test_ps_tells_jobs_apart(self):
        spec = self.pool("128M")
        self.waiting(spec)
        self.assertNotIn(" JOB ", self.penstock("ps", spec).stdout)
        self.waiting(spec)
        table = self.penstock("ps", spec).stdout.splitlines()
        self.assertIn(" JOB ", table[0])
        self.assertEqual(len({line.split()[6] for line in table[1:]}), 2, table)

    def test_ps_shows_who_is_stopped(self):
        spec = self.pool("64M")
        self.waiting(spec)
        record = json.loads(self.penstock("ps", "--json", spec).stdout)[0]
        self.assertEqual(record["state"], "alive")
        os.kill(record["pid"], signal.SIGSTOP)
        self.addCleanup(os.kill, record["pid"], signal.SIGCONT)
        self.wait_for(lambda: "stopped" in self.penstock("ps", spec).stdout, "the stopped rank")
        states = {r["rank"]: r["state"] for r in json.loads(self.penstock("ps", "--json", spec).stdout)}
        self.assertEqual(states[record["rank"]], "stopped")

    def test_ps_shows_what_ranks_wait_for(self):
        for how, says in (("fence", "MPI_Win_fence: waits for rank 2 (pid"), ("lock", "MPI_Win_lock: waits for the lock of"),
                          ("allreduce", "receives from")):
            spec = self.pool("64M", "software")
            job = self.start("run", "-n", "3", "--nodes", "3", "--pool", spec, "--", PYTHON, PROGRAMS / "waits.py",
                             how, "100")
            self.assertIn("all there", job.stdout.readline())

            def told(says=says, spec=spec):
                records = json.loads(self.penstock("ps", "--json", spec).stdout)
                return any(r["rank"] == 0 and says in r["activity"] and " since " in r["activity"] for r in records)

            self.wait_for(told, f"{says} in ps")

            def waits_cost_little(spec=spec):
                rows = json.loads(self.penstock("ps", "--traffic=2.5", "--json", spec).stdout)
                rates = [row["device_reads_per_second"] for row in rows]  # the first may be of the start
                return len(rates) == 3 and None not in rates and max(rates) <= 10_000

            self.wait_for(waits_cost_little, "ranks that read little while they wait")
            self.end(job)

    def test_gc_counts_a_process_once(self):
        spec = self.pool("128M")
        job = self.waiting(spec)
        ranks = [r["pid"] for r in json.loads(self.penstock("ps", "--json", spec).stdout)]
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)
        job.wait(60)
        shown = self.penstock("pool", "gc", spec).stdout
        freed = self.penstock("pool", "gc", "--yes", spec).stdout
        self.assertIn("2 dead processes left", shown)
        self.assertIn("freed: 2 dead processes", freed)


class Advice(Case):
    def test_force_removes_only_pools(self):
        spec = self.pool("32M")
        path = SHM / f"penstock.{spec.removeprefix('shm:')}"
        self.addCleanup(path.unlink, missing_ok=True)
        os.truncate(path, 20 << 20)
        self.refused("pool", "rm", spec, says="truncated", fix=f"penstock pool rm {spec} --force")
        os.truncate(path, 100)
        for force in ([], ["--force"]):
            self.refused("pool", "rm", *force, spec, says="is not a Penstock pool", fix=f"rm {path}")

    def test_a_truncated_pool_is_removed_as_advised(self):
        spec = self.pool("32M")
        path = SHM / f"penstock.{spec.removeprefix('shm:')}"
        os.truncate(path, 20 << 20)
        self.penstock("pool", "rm", spec, "--force")
        self.assertFalse(path.exists())

    def test_bare_doctor_warns_of_no_pool(self):
        done = self.penstock("doctor", status=None)
        self.assertIn("ok    pool: none is named; penstock doctor SPEC", done.stdout)

    def test_devdax_takes_its_options_anywhere(self):
        devdax = [SOURCE / "packaging/devdax"]
        run = lambda *words: subprocess.run([*devdax, *words], capture_output=True, text=True)
        for words in (["--sysfs", "--wait", "0", "up", "mem99"], ["up", "mem99", "--wait", "0", "--sysfs"]):
            self.assertIn("CXL memory device mem99 is absent", run(*words).stderr)
        for word in ("--help", "-h"):
            self.assertEqual((run(word).returncode, run(word).stdout.split()[0]), (0, "devdax"))
        self.assertIn("'more' is one word too many", run("up", "mem99", "more").stderr)


class Occupied(Case):
    def test_overwrite_is_refused_under_a_job(self):
        spec = self.pool("64M")
        job = self.start("run", "-n", "2", "--pool", spec, "--", PYTHON, PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        before = self.info(spec)["id"]
        self.refused("pool", "create", spec, "--size", "64M", "--overwrite", says="in use", fix="pool rm")
        self.assertEqual(self.info(spec)["id"], before)
        self.end(job)
        self.penstock("pool", "create", spec, "--size", "64M", "--overwrite")
        self.assertNotEqual(self.info(spec)["id"], before)


if __name__ == "__main__":
    unittest.main()
