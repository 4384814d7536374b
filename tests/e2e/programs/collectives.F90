! What Fortran can ask of collectives that go through the pool: each call that the library takes, with what it
! must give back. Compiled for one of the three interfaces: -DMPIF_H, -DUSE_MPI, -DUSE_MPI_F08. Ranks with an odd
! number come to the barriers by the interface of C: all of them must meet in one place. -DHANDLES_ARE_NUMBERS where
! the handles of C and Fortran are the same.
#ifdef USE_MPI_F08
#define HANDLE(of) type(of)
#define NUMBER(handle) handle%MPI_VAL
#else
#define HANDLE(of) integer
#define NUMBER(handle) handle
#endif

module checks
  implicit none
  integer :: wrong = 0
contains
  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    wrong = wrong + 1
    write (*, '(2a)') 'collectives: wrong: ', what
  end subroutine

  ! Not commutative: the left one's digits before the right one's.
  subroutine join(left, right, count, datatype)
#ifdef USE_MPI_F08
    use, intrinsic :: iso_c_binding
    use mpi_f08
    type(c_ptr), value :: left, right
    integer :: count
    type(MPI_Datatype) :: datatype
    integer, pointer :: l(:), r(:)
    call c_f_pointer(left, l, [count])
    call c_f_pointer(right, r, [count])
    r = 10 * l + r
#else
    integer :: count, datatype
    integer :: left(count), right(count)
    right = 10 * left + right
#endif
  end subroutine
end module

program collectives
  use, intrinsic :: iso_c_binding
  use checks
#if defined(USE_MPI_F08)
  use mpi_f08
  implicit none
#elif defined(USE_MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  interface
#ifndef HANDLES_ARE_NUMBERS
    function comm_in_c(comm) bind(C, name='MPI_Comm_f2c')
      import
      integer(c_int), value :: comm
      integer(c_intptr_t) :: comm_in_c
    end function
#endif
    function barrier_in_c(comm) bind(C, name='MPI_Barrier')
      import
      integer(c_intptr_t), value :: comm
      integer(c_int) :: barrier_in_c
    end function
  end interface
  integer :: rank, ranks, turn, ierr, i, before
  integer, allocatable :: from(:), into(:), counts(:), places(:)
  real(kind(1d0)) :: most(2), own(2)
  HANDLE(MPI_Op) :: joining

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  allocate (from(ranks * ranks), into(ranks * ranks), counts(ranks), places(ranks))
  call MPI_Op_create(join, .false., joining, ierr)
  counts = [(i, i = 1, ranks)]
  places = [(i * (i - 1) / 2, i = 1, ranks)]
  before = rank * (rank + 1) / 2
  do turn = 1, 6
    if (modulo(rank, 2) == 0) then
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
    else
      ierr = barrier_in_c(comm_in_c(NUMBER(MPI_COMM_WORLD)))
    end if
    call check(ierr == MPI_SUCCESS, 'MPI_Barrier')
    into = rank
    call MPI_Bcast(into, 3, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierr)
    call check(all(into(:3) == ranks - 1), 'MPI_Bcast')

    from = rank + turn
    call MPI_Allreduce(from, into, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(all(into(:4) == ranks * turn + ranks * (ranks - 1) / 2), 'MPI_Allreduce')
    call MPI_Allreduce(MPI_IN_PLACE, from, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
    call check(all(from(:4) == ranks - 1 + turn), 'MPI_Allreduce in place')
    own = [real(modulo(rank, 2), kind(1d0)), real(rank, kind(1d0))]
    call MPI_Allreduce(own, most, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, ierr)
    call check(all(most == [1d0, 1d0]), 'MPI_MAXLOC')
    from = rank + 1
    call MPI_Allreduce(from, into, 2, MPI_INTEGER, joining, MPI_COMM_WORLD, ierr)
    before = 0
    do i = 1, ranks
      before = 10 * before + i
    end do
    call check(all(into(:2) == before), 'an operation of the program')
    call MPI_Reduce(from, into, 1, MPI_INTEGER, MPI_PROD, 0, MPI_COMM_WORLD, ierr)
    call check(rank /= 0 .or. into(1) == product([(i, i = 1, ranks)]), 'MPI_Reduce')
    call MPI_Scan(from, into, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(into(1) == (rank + 1) * (rank + 2) / 2, 'MPI_Scan')
    call MPI_Exscan(from, into, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(rank == 0 .or. into(1) == rank * (rank + 1) / 2, 'MPI_Exscan')
    call MPI_Reduce_scatter_block(from, into, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(into(1) == ranks * (ranks + 1) / 2, 'MPI_Reduce_scatter_block')
    from = rank
    call MPI_Reduce_scatter(from, into, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(all(into(:rank + 1) == ranks * (ranks - 1) / 2), 'MPI_Reduce_scatter')

    from = rank
    call MPI_Gather(from, 1, MPI_INTEGER, into, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    call check(rank /= 0 .or. all(into(:ranks) == [(i, i = 0, ranks - 1)]), 'MPI_Gather')
    call MPI_Gatherv(from, rank + 1, MPI_INTEGER, into, counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) call check(into(places(ranks) + 1) == ranks - 1, 'MPI_Gatherv')
    call MPI_Allgather(from, 1, MPI_INTEGER, into, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call check(all(into(:ranks) == [(i, i = 0, ranks - 1)]), 'MPI_Allgather')
    into(rank + 1) = 7 * rank
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, into, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call check(all(into(:ranks) == [(7 * i, i = 0, ranks - 1)]), 'MPI_Allgather in place')
    call MPI_Allgatherv(from, rank + 1, MPI_INTEGER, into, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call check(into(places(ranks) + 1) == ranks - 1, 'MPI_Allgatherv')
    from = [(100 * rank + i, i = 0, ranks * ranks - 1)]
    call MPI_Alltoall(from, 1, MPI_INTEGER, into, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call check(all(into(:ranks) == [(100 * i + rank, i = 0, ranks - 1)]), 'MPI_Alltoall')
    call MPI_Alltoallv(from, [(1, i = 1, ranks)], [(i - 1, i = 1, ranks)], MPI_INTEGER, &
                       into, [(1, i = 1, ranks)], [(ranks - i, i = 1, ranks)], MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call check(all(into(:ranks) == [(100 * (ranks - i) + rank, i = 1, ranks)]), 'MPI_Alltoallv')
    call MPI_Scatter(from, 2, MPI_INTEGER, into, 2, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
    call check(into(2) == 100 + 2 * rank + 1, 'MPI_Scatter')
    call MPI_Scatterv(from, counts, places, MPI_INTEGER, into, rank + 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    call check(into(rank + 1) == places(rank + 1) + rank, 'MPI_Scatterv')
  end do
  call MPI_Op_free(joining, ierr)
  call MPI_Finalize(ierr)
  if (wrong /= 0) stop 1
  write (*, '(a)') 'collectives: ok'
#ifdef HANDLES_ARE_NUMBERS
contains
  function comm_in_c(comm)
    integer, intent(in) :: comm
    integer(c_intptr_t) :: comm_in_c
    comm_in_c = comm
  end function
#endif
end program
