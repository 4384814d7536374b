"""Debian packages in a folder of one's own: fetched with an apt state beside them, extracted, and
never installed."""

import fcntl
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEFAULT_CACHE = Path.home() / ".cache/penstock/qemu"
# Bookworm's QEMU 7.2 and kernel 6.1 know no volatile type-3 device, its cxl 76 makes no ram region.
SETS = {
    "host": ("bookworm-backports", ["qemu-system-x86", "seabios"]),
    "tools": ("trixie", ["cxl", "daxctl", "ndctl"]),
    "guest": ("bookworm", ["busybox-static", "dropbear-bin", "e2fsprogs", "libnuma1", "libpmemobj1"]),
    "kernel": ("bookworm-backports", ["linux-image-cloud-amd64"]),
}
PRIORITIES = {"bookworm": 900, "bookworm-backports": 500, "trixie": 100}
FETCH_SECONDS = 900


class Unavailable(Exception):
    """The packages cannot be had; the text says why."""


def mirror():
    """The Debian mirror that this machine's own apt uses."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]
    for file in files:
        if file.is_file():
            found = re.search(r"^(?:URIs:|deb\b(?: \[[^\]]*\])?)\s*(\S+/debian/?)\s*(?:\s\S.*)?$",
                              file.read_text(errors="replace"), re.M)
            if found:
                return found.group(1)
    raise Unavailable("no Debian mirror is named in /etc/apt/sources.list or sources.list.d")


class Store:
    """The folder: apt's state, the archives, and root/SET with what each set of packages holds."""

    def __init__(self, folder, say):
        self.folder = Path(folder)
        self.say = say
        self.deadline = time.monotonic() + FETCH_SECONDS
        self.environment = {**os.environ, "LC_ALL": "C",
                            "APT_CONFIG": str(self.folder / "apt/configuration")}

    def root(self, name):
        return self.folder / "root" / name

    def fill(self):
        """Fetches what is missing; with everything there it needs no network and no apt."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / "lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._fill()
        except OSError as error:
            raise Unavailable(f"the cache folder {self.folder}: {error.strerror}") from error

    def _fill(self):
        stamp = self.folder / "complete"
        wanted = repr(SETS)
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        stamp.unlink(missing_ok=True)
        for program in ["apt-get", "apt-cache", "dpkg-deb"]:
            if not shutil.which(program):
                raise Unavailable(f"{program} is absent; the packages come from Debian's archive")
        self._make_state(mirror())
        self.say(f"fetching packages into {self.folder} (once)")
        self._run("apt-get", "update", "-qq")
        shutil.rmtree(self.folder / "root", ignore_errors=True)
        for name, (release, packages) in SETS.items():
            self._fetch(name, self._closure(name, release, packages))
        stamp.write_text(wanted)

    def _make_state(self, address):
        if not KEYRING.is_file():
            raise Unavailable(f"{KEYRING} is absent: apt-get install debian-archive-keyring")
        apt = self.folder / "apt"
        for name in ["etc/apt.conf.d", "etc/preferences.d", "state/lists/partial",
                     "cache/archives/partial"]:
            (apt / name).mkdir(parents=True, exist_ok=True)
        (apt / "status").write_text("")
        (apt / "etc/sources.list").write_text("".join(
            f"deb [signed-by={KEYRING}] {address} {release} main\n" for release in PRIORITIES))
        (apt / "etc/preferences").write_text("\n".join(
            f"Package: *\nPin: release n={release}\nPin-Priority: {priority}\n"
            for release, priority in PRIORITIES.items()))
        (apt / "configuration").write_text(
            f'Dir::Etc "{apt}/etc"; Dir::Etc::sourcelist "{apt}/etc/sources.list";\n'
            f'Dir::Etc::sourceparts "/dev/null"; Dir::State "{apt}/state";\n'
            f'Dir::State::status "{apt}/status"; Dir::Cache "{apt}/cache";\n'
            + self._proxies() +
            'APT::Architecture "amd64"; APT::Architectures "amd64";\n'
            'APT::Install-Recommends "false"; APT::Sandbox::User ""; APT::Update::Error-Mode "any";\n'
            'Acquire::Languages "none"; Acquire::Retries "2"; Acquire::http::Timeout "30";\n')

    @staticmethod
    def _proxies():
        """Those of the machine's own apt, whose other settings are not for us."""
        dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
        return "".join(f"{line}\n" for line in dumped.splitlines() if re.match(r"Acquire::\w+::Proxy", line))

    def _closure(self, name, release, packages):
        """PACKAGE=VERSION of these and of all they need, libc too, since the status file is empty."""
        if name == "kernel":  # of what it needs only the kernel itself: the rest is for installing
            listed = self._run("apt-cache", "depends", f"{packages[0]}/{release}")
            return re.findall(r"Depends: (linux-image-\S+)", listed)[:1]
        listed = self._run("apt-get", "install", "-s", "-qq", "-t", release, *packages)
        return [f"{package}={version}"
                for package, version in re.findall(r"^Inst (\S+) \((\S+)", listed, re.M)]

    def _fetch(self, name, packages):
        if not packages:
            raise Unavailable(f"Debian's archive offers no {', '.join(SETS[name][1])}")
        archives = self.folder / "archives" / name
        shutil.rmtree(archives, ignore_errors=True)
        archives.mkdir(parents=True)
        self.root(name).mkdir(parents=True)
        self._run("apt-get", "download", "-qq", *packages, cwd=archives)
        for archive in sorted(archives.glob("*.deb")):
            self._run("dpkg-deb", "-x", str(archive), str(self.root(name)))
        shutil.rmtree(archives)

    def _run(self, *command, cwd=None):
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment,
                                  cwd=cwd, stdin=subprocess.DEVNULL,
                                  timeout=max(1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{' '.join(command[:2])}: not within {FETCH_SECONDS} s") from error
        if done.returncode != 0:
            reason = (done.stderr.strip() or done.stdout.strip()).split("\n")[0]
            raise Unavailable(f"{' '.join(command[:2])}: {reason}")
        return done.stdout
