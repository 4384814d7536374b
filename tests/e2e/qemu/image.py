"""What lies in the guests: the product, MPICH and this folder's programs with the libraries that
this machine has for them, and busybox, ssh, cxl and daxctl from the packages."""

import lzma
import os
import re
import subprocess
from pathlib import Path

from archive import Archive

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER.parents[2]
LOADER = "/lib64/ld-linux-x86-64.so.2"
LIBRARIES = "lib/x86_64-linux-gnu"
MPI_PROGRAMS = {"job": FOLDER / "programs/job.c", "latency": FOLDER / "programs/latency.c",
                "one_sided": SOURCE / "lab/bench/mpi/one_sided.c", "halo": SOURCE / "examples/halo.c",
                "ring": FOLDER.parent / "programs/ring.c"}
PRODUCT = ["bin/penstock", "lib/libpenstock-fi.so", "lib/libpenstock-mpi.so"]
MPICH = ["bin/mpiexec", "bin/mpiexec.hydra", "bin/hydra_pmi_proxy", "bin/mpichversion",
         "lib/libmpi.so.12"]
# Never kmem: it would make the shared devices the memory of both kernels, which then overwrite
# each other.
MODULES = ["cxl_acpi", "cxl_pci", "cxl_mem", "dax_cxl", "device_dax", "virtio_net"]


class Missing(Exception):
    """Something that is to be built before; the text says what and how."""


def libraries_of(program, loader=LOADER, folders=()):
    """Name and path of each library that the loader finds for it."""
    command = [str(loader), "--library-path", ":".join(map(str, folders)), "--list", str(program)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
    listed = subprocess.run(command, capture_output=True, text=True, env=clean)
    if listed.returncode != 0:
        raise Missing(f"the libraries of {program} cannot be told: {listed.stderr.strip()}")
    return re.findall(r"^\s*(\S+) => (/\S+)", listed.stdout, re.M)


class Image:
    """Of a host that takes part in jobs of MPI."""

    modules, tools = MODULES, ["cxl", "daxctl"]

    def __init__(self, store, build, venv, work):
        self.store, self.build, self.venv, self.work = store, Path(build), Path(venv), Path(work)
        self.archive = Archive()

    def make(self, target):
        self._add_what_it_is_for()
        self._add_shell()
        self._add_cxl_tools()
        self._add_modules()
        self._add_settings()
        self.archive.write(target)

    def _add_what_it_is_for(self):
        self._check_what_is_built()
        self._add_product()
        self._add_programs()
        self._add_ssh()

    def _check_is_built(self, names):
        for name in names:
            if not (self.build / name).is_file():
                raise Missing(f"{self.build / name} is absent; run: make build (or --build FOLDER)")

    def _check_what_is_built(self):
        self._check_is_built([*PRODUCT, "lib/libpenstock.so"])
        for name in [*MPICH, "bin/mpicc"]:
            if not (self.venv / name).exists():
                raise Missing(f"{self.venv / name} is absent; run: ci/install.sh run "
                              "(or --venv FOLDER)")

    def _add_native(self, path, source, folders=()):
        """A program or library that runs with this machine's loader, and what it needs."""
        self.archive.file(path, source)
        self.archive.file(LOADER, LOADER)
        for name, library in libraries_of(source, folders=folders):
            if self.venv not in Path(library).parents and self.build not in Path(library).parents:
                self.archive.file(f"{LIBRARIES}/{name}", library)

    def _add_product(self):
        for name in PRODUCT:
            self._add_native(f"opt/penstock/{name}", self.build / name)
        self.archive.file("opt/penstock/lib/libpenstock.so.0", self.build / "lib/libpenstock.so")
        self.archive.file("opt/penstock/lib/penstock/devdax", SOURCE / "packaging/devdax", mode=0o755)
        self.archive.link("bin/devdax", "/opt/penstock/lib/penstock/devdax")
        for name in MPICH:
            self._add_native(f"opt/mpich/{name}", (self.venv / name).resolve())
        for library in (self.venv / "lib/mpich").glob("*.so*"):
            self.archive.file(f"opt/mpich/lib/mpich/{library.name}", library)

    def _add_programs(self):
        for name, source in MPI_PROGRAMS.items():
            program = self.work / name
            self._compile([self.venv / "bin/mpicc", "-std=gnu11", "-O2", source, "-o", program,
                           "-Wl,-rpath,/opt/mpich/lib"])
            self.archive.file(f"bin/{name}", program)
        for name in ["meeting", "wide"]:
            program = self.work / name
            self._compile(["cc", "-std=gnu11", "-O2", f"-I{SOURCE / 'include'}", "-o", program,
                           FOLDER / f"programs/{name}.c", f"-L{self.build / 'lib'}", "-lpenstock",
                           "-Wl,-rpath,/opt/penstock/lib"])
            self.archive.file(f"bin/{name}", program)

    @staticmethod
    def _compile(command):
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        except OSError as error:
            raise Missing(f"{command[0]} cannot be run: {error}; run: ci/install.sh build run"
                          ) from error
        if done.returncode != 0:
            raise Missing(f"compiling failed: {' '.join(map(str, command))}\n{done.stderr}")

    def _add_shell(self):
        busybox = self.store.root("guest") / "bin/busybox"
        self.archive.file("bin/busybox", busybox)
        listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
        for name in listed.stdout.split():
            self.archive.link(f"bin/{name}", "busybox")
        for script in sorted((FOLDER / "guest").iterdir()):
            path = "init" if script.name == "init" else f"bin/{script.name}"
            self.archive.file(path, script, mode=0o755)

    def _add_ssh(self):
        root, folders = self.store.root("guest"), self._guest_folders()
        for name in ["usr/sbin/dropbear", "usr/bin/dbclient"]:
            self._add_native(f"bin/{Path(name).name}", root / name, folders)
        loader = root / LIBRARIES / Path(LOADER).name
        public = ""
        for path in ["etc/host_key", "root/user_key"]:
            key = self.work / Path(path).name
            made = subprocess.run([loader, "--library-path", ":".join(map(str, folders)),
                                   root / "usr/bin/dropbearkey", "-t", "ed25519", "-f", key],
                                  capture_output=True, text=True, check=True)
            public = re.search(r"^ssh-\S+ \S+", made.stdout, re.M).group(0)
            self.archive.file(path, key, mode=0o600)
        self.archive.folder("root", 0o700)
        self.archive.folder("root/.ssh", 0o700)
        self.archive.text("root/.ssh/authorized_keys", public + "\n", 0o600)

    def _add_cxl_tools(self):
        """Of a later Debian than the rest, so with a C library and a loader of their own."""
        root = self.store.root("tools")
        folder = root / "usr" / LIBRARIES
        loader = folder / Path(LOADER).name
        self.archive.file("opt/cxl/loader", loader.resolve(), mode=0o755)
        for name in self.tools:
            self.archive.file(f"opt/cxl/{name}", root / "usr/bin" / name)
            for library, path in libraries_of(root / "usr/bin" / name, loader, [folder]):
                self.archive.file(f"opt/cxl/{library}", path)
            self.archive.text(f"bin/{name}", "#!/bin/sh\nexec /opt/cxl/loader --library-path "
                              f'/opt/cxl /opt/cxl/{name} "$@"\n', 0o755)

    def _add_modules(self):
        files = {path.name.removesuffix(".ko.xz").replace("-", "_"): path
                 for path in self.store.root("kernel").rglob("*.ko.xz")}
        order = []

        def add(name):
            if name in order or name not in files:
                return  # built in
            content = lzma.decompress(files[name].read_bytes())
            for needed in re.search(rb"\0depends=([^\0]*)\0", content).group(1).decode().split(","):
                add(needed.replace("-", "_"))
            order.append(name)
            self.archive.bytes(f"modules/{name}.ko", content)

        for module in self.modules:
            add(module)
        self.archive.text("modules/order", "\n".join(order) + "\n")

    def _guest_folders(self):
        root = self.store.root("guest")
        return [root / "usr" / LIBRARIES, root / LIBRARIES]

    def _add_settings(self):
        self.archive.text("etc/passwd", "root::0:0:root:/root:/bin/sh\n")
        self.archive.text("etc/group", "root:x:0:\n")
        self.archive.text("etc/shells", "/bin/sh\n")
        self.archive.text("etc/hosts", "127.0.0.1 localhost\n10.0.0.1 alpha\n10.0.0.2 beta\n")
        self.archive.text("etc/nsswitch.conf", "hosts: files\n")
        for folder in ["proc", "sys", "dev", "tmp", "run", "var/run", "lib64"]:
            self.archive.folder(folder)
        self.archive.link("usr/bin", "../bin")


class StreamImage(Image):
    """Of a host that measures its memory: the command alone, libnuma and libpmemobj, and what makes
    a NUMA node and a file system of CXL devices. Nothing is shared here, so kmem may be loaded."""

    modules = ["cxl_acpi", "cxl_pci", "cxl_mem", "cxl_pmem", "nd_pmem", "dax_cxl", "device_dax", "kmem"]
    tools = ["cxl", "daxctl", "ndctl"]

    def _add_what_it_is_for(self):
        self._check_is_built(PRODUCT[:1])
        self._add_native(f"opt/penstock/{PRODUCT[0]}", self.build / PRODUCT[0])
        root, folders = self.store.root("guest"), self._guest_folders()
        self._add_native("bin/mkfs.ext4", root / "sbin/mke2fs", folders)
        for name in ["libnuma.so.1", "libpmemobj.so.1", "libpmem.so.1"]:
            self._add_native(f"{LIBRARIES}/{name}", folders[0] / name, folders)
