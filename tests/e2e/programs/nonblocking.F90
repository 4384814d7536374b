! Nonblocking collectives of Fortran: what begins a call and what waits for it go one way. Each call that waits for or
! tests requests ends some. -DPERSISTENT where the MPI has persistent collectives; -DNO_INDEX where the
! MPI itself tells of wrong indices (mpi_f08 of MPICH 4.0).
module operations
contains
  subroutine join(left, right, count, datatype)
#if defined(USE_MPI_F08)
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

program nonblocking
  use operations
#if defined(USE_MPI_F08)
  use mpi_f08
  implicit none
  type(MPI_Request) :: requests(3), persistent
  type(MPI_Status) :: state, states(3)
  type(MPI_Op) :: joining
#else
  implicit none
  include 'mpif.h'
  integer :: requests(3), persistent
  integer :: state(MPI_STATUS_SIZE), states(MPI_STATUS_SIZE, 3)
  integer :: joining
#endif
  integer :: ierror, rank, ranks, turn, i, number, number_ended, indices(3), ended(3)
  integer :: given(100), total(100), other(100), again(100)
  logical :: flag

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  do turn = 1, 32
    given = turn + rank
    other = rank
    call MPI_Iallreduce(given, total, 100, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Ibcast(other, 100, MPI_INTEGER, 1, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(3), ierror)
    number_ended = 0
    ended = 0
    select case (mod(turn, 8))
    case (1)
      call MPI_Wait(requests(2), MPI_STATUS_IGNORE, ierror)
      call MPI_Wait(requests(1), state, ierror)
      call MPI_Waitall(3, requests, states, ierror)
#ifndef NO_INDEX
    case (2)
      do i = 1, 3
        call MPI_Waitany(3, requests, indices(1), state, ierror)
        ended(indices(1)) = ended(indices(1)) + 1
      end do
      call check(all(ended == 1), 'MPI_Waitany')
    case (3)
      do while (number_ended < 3)
        call MPI_Waitsome(3, requests, number, indices, states, ierror)
        ended(indices(:number)) = ended(indices(:number)) + 1
        number_ended = number_ended + number
      end do
      call check(all(ended == 1), 'MPI_Waitsome')
#endif
    case (4)
      flag = .false.
      do while (.not. flag)
        call MPI_Testall(3, requests, flag, states, ierror)
      end do
#ifndef NO_INDEX
    case (5)
      do while (number_ended < 3)
        call MPI_Testany(3, requests, indices(1), flag, MPI_STATUS_IGNORE, ierror)
        if (.not. flag) cycle
        ended(indices(1)) = ended(indices(1)) + 1
        number_ended = number_ended + 1
      end do
      call check(all(ended == 1), 'MPI_Testany')
    case (6)
      do while (number_ended < 3)
        call MPI_Testsome(3, requests, number, indices, MPI_STATUSES_IGNORE, ierror)
        ended(indices(:number)) = ended(indices(:number)) + 1
        number_ended = number_ended + number
      end do
      call check(all(ended == 1), 'MPI_Testsome')
#endif
    case (7)
      do i = 3, 1, -1
        flag = .false.
        do while (.not. flag)
          call MPI_Request_get_status(requests(i), flag, state, ierror)
        end do
        call MPI_Test(requests(i), flag, state, ierror)
        call check(flag, 'MPI_Test')
      end do
    case default
      call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, ierror)
    end select
    do i = 1, 3
      call check(requests(i) == MPI_REQUEST_NULL, 'a request that has ended')
    end do
    call check(all(total == ranks * turn + ranks * (ranks - 1) / 2), 'MPI_Iallreduce')
    call check(all(other == 1), 'MPI_Ibcast')
    call MPI_Op_create(join, .false., joining, ierror)
    call MPI_Iallreduce(given, total, 100, MPI_INTEGER, joining, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Op_free(joining, ierror)
    call check(joining == MPI_OP_NULL, 'an operation that was freed')
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
    number = 0
    do i = 0, ranks - 1
      number = 10 * number + turn + i
    end do
    call check(all(total == number), 'MPI_Iallreduce by an operation of the program')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end do
#ifdef PERSISTENT
  call MPI_Allreduce_init(given, again, 100, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, persistent, ierror)
  do turn = 1, 5
    given = rank + turn
    if (mod(turn, 2) == 0) then
      call MPI_Start(persistent, ierror)
    else
      requests(1) = persistent
      call MPI_Startall(1, requests, ierror)
    end if
    call MPI_Wait(persistent, MPI_STATUS_IGNORE, ierror)
    call check(all(again == ranks - 1 + turn), 'MPI_Allreduce_init')
  end do
  call MPI_Request_free(persistent, ierror)
#endif
  if (rank == 0) print '(a)', 'nonblocking: ok'
  call MPI_Finalize(ierror)
contains
  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    print '(3a)', 'nonblocking: wrong: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end program
