! Nonblocking collectives of Fortran: what begins a call and what waits for it go one way.
program nonblocking
#if defined(USE_MPI_F08)
  use mpi_f08
  implicit none
  type(MPI_Request) :: requests(2)
#else
  implicit none
  include 'mpif.h'
  integer :: requests(2)
#endif
  integer :: ierror, rank, ranks, turn
  integer :: given(100), total(100), other(100)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  do turn = 1, 20
    given = turn + rank
    other = rank
    call MPI_Iallreduce(given, total, 100, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Ibcast(other, 100, MPI_INTEGER, 1, MPI_COMM_WORLD, requests(2), ierror)
    if (mod(turn, 2) == 0) then
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    else
      call MPI_Wait(requests(2), MPI_STATUS_IGNORE, ierror)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
    end if
    if (any(total /= ranks * turn + ranks * (ranks - 1) / 2) .or. any(other /= 1)) then
      print '(a)', 'nonblocking: wrong'
      call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end do
  if (rank == 0) print '(a)', 'nonblocking: ok'
  call MPI_Finalize(ierror)
end program
