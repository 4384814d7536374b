! What Fortran can ask of windows: each call that the library takes, with what it must give back.
! Compiled for one of the three interfaces: -DMPIF_H, -DUSE_MPI, -DUSE_MPI_F08; the last one with
! -DLARGE_COUNTS where the MPI has these. With any argument it starts by MPI_Init_thread.
#ifdef USE_MPI_F08
#define HANDLE(of) type(of)
#else
#define HANDLE(of) integer
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
    write (*, '(2a)') 'window: wrong: ', what
  end subroutine
end module

program window
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
  integer, parameter :: count = 8, unit = 4
  integer(MPI_ADDRESS_KIND), parameter :: bytes = count * unit, start = 0, second = 1, last = count - 1
  integer :: rank, size, ierr, provided, right, left
  HANDLE(MPI_Win) :: win
  HANDLE(MPI_Group) :: world
  integer, pointer :: memory(:), origin(:)
  type(c_ptr) :: base

  if (command_argument_count() == 0) then
    call MPI_Init(ierr)
  else
    call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
    call check(provided >= MPI_THREAD_FUNNELED, 'provided')
  end if
  call check(ierr == MPI_SUCCESS, 'MPI_Init')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
  right = modulo(rank + 1, size)
  left = modulo(rank - 1, size)
  call MPI_Alloc_mem(bytes, MPI_INFO_NULL, base, ierr)
  call c_f_pointer(base, origin, [count])
  call MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
  call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate')
  call c_f_pointer(base, memory, [count])
  call born_attributes(MPI_WIN_FLAVOR_ALLOCATE)
  call own_attribute()
  call fences()
  call bottom()
  call locks()
  call neighbours()
  call single_elements()
  call requests()
  call MPI_Win_free(win, ierr)
  call check(ierr == MPI_SUCCESS .and. win == MPI_WIN_NULL, 'MPI_Win_free')
  call created()
  call shared()
#ifdef LARGE_COUNTS
  call large_counts()
#endif
  call MPI_Free_mem(origin, ierr)
  call check(ierr == MPI_SUCCESS, 'MPI_Free_mem')
  call MPI_Group_free(world, ierr)
  call MPI_Allreduce(wrong, provided, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. provided == 0) write (*, '(a, i0, a)') 'window: ok: ', size, ' ranks'
#ifdef USE_MPI_F08
  call MPI_Finalize()
#else
  call MPI_Finalize(ierr)
#endif
  if (wrong /= 0) stop 1

contains

  subroutine born_attributes(flavor)
    integer, intent(in) :: flavor
    call attribute(MPI_WIN_BASE, transfer(base, start), 'MPI_WIN_BASE')
    call attribute(MPI_WIN_SIZE, bytes, 'MPI_WIN_SIZE')
    call attribute(MPI_WIN_DISP_UNIT, int(unit, MPI_ADDRESS_KIND), 'MPI_WIN_DISP_UNIT')
    call attribute(MPI_WIN_CREATE_FLAVOR, int(flavor, MPI_ADDRESS_KIND), 'MPI_WIN_CREATE_FLAVOR')
  end subroutine

  subroutine attribute(keyval, wanted, what)
    integer, intent(in) :: keyval
    integer(MPI_ADDRESS_KIND), intent(in) :: wanted
    character(*), intent(in) :: what
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    value = -1
    flag = .false.
    call MPI_Win_get_attr(win, keyval, value, flag, ierr)
    call check(ierr == MPI_SUCCESS .and. flag, what)
    call check(value == wanted, what)
  end subroutine

  ! One of the program's own, and one that nobody set.
  subroutine own_attribute()
    integer :: keyval
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, keyval, start, ierr)
    value = -77 - rank
    flag = .true.
    call MPI_Win_get_attr(win, keyval, value, flag, ierr)
    call check(.not. flag, 'an attribute that is not there')
    value = -77 - rank
    call MPI_Win_set_attr(win, keyval, value, ierr)
    call attribute(keyval, int(-77 - rank, MPI_ADDRESS_KIND), 'an attribute of the program')
    call MPI_Win_free_keyval(keyval, ierr)
  end subroutine

  subroutine fences()
    memory = -1
    origin = rank
    call MPI_Win_fence(MPI_MODE_NOPRECEDE, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_fence')
    call MPI_Put(origin, 2, MPI_INTEGER, right, second, 2, MPI_INTEGER, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Put')
    call MPI_Win_fence(0, win, ierr)
    call check(all(memory == [-1, left, left, -1, -1, -1, -1, -1]), 'what was put')
    call MPI_Get(origin(5), 3, MPI_INTEGER, right, start, 3, MPI_INTEGER, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Get')
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
    call check(all(origin(5:7) == [-1, rank, rank]), 'what was got')
  end subroutine

  ! From an absolute address.
  subroutine bottom()
    HANDLE(MPI_Datatype) :: absolute
    integer(MPI_ADDRESS_KIND) :: at(1)
    integer, target, asynchronous :: value
    value = 1000 + rank
    call MPI_Get_address(value, at(1), ierr)
    call MPI_Type_create_hindexed(1, [1], at, MPI_INTEGER, absolute, ierr)
    call MPI_Type_commit(absolute, ierr)
    call MPI_Win_fence(0, win, ierr)
    call MPI_Put(MPI_BOTTOM, 1, absolute, right, last, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call check(memory(count) == 1000 + left, 'what was put from MPI_BOTTOM')
    call MPI_Type_free(absolute, ierr)
  end subroutine

  ! All add to one element of rank 0.
  subroutine locks()
    integer :: result(1)
    memory = 0
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
    origin(1) = rank + 1
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_lock')
    call MPI_Accumulate(origin, 1, MPI_INTEGER, 0, last, 1, MPI_INTEGER, MPI_SUM, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Accumulate')
    call MPI_Win_unlock(0, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_unlock')
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win, ierr)
    call MPI_Get_accumulate(origin, 0, MPI_INTEGER, result, 1, MPI_INTEGER, 0, last, 1, MPI_INTEGER, &
                            MPI_NO_OP, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_flush')
    call MPI_Win_unlock(0, win, ierr)
    call check(result(1) == size * (size + 1) / 2, 'MPI_Get_accumulate')
  end subroutine

  ! Each puts to its right neighbour, who asks with MPI_Win_test or MPI_Win_wait.
  subroutine neighbours()
    HANDLE(MPI_Group) :: to, from
    logical :: flag
    call MPI_Group_incl(world, 1, [right], to, ierr)
    call MPI_Group_incl(world, 1, [left], from, ierr)
    origin(1) = 100 + rank
    call MPI_Win_post(from, 0, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_post')
    call MPI_Win_start(to, 0, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_start')
    call MPI_Put(origin, 1, MPI_INTEGER, right, start, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_complete(win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_complete')
    if (modulo(rank, 2) == 0) then
      call MPI_Win_wait(win, ierr)
    else
      flag = .false.
      do while (.not. flag)
        call MPI_Win_test(win, flag, ierr)
      end do
    end if
    call check(ierr == MPI_SUCCESS, 'MPI_Win_wait or MPI_Win_test')
    call check(memory(1) == 100 + left, 'what the neighbour put')
    call MPI_Group_free(to, ierr)
    call MPI_Group_free(from, ierr)
    ! Nothing came yet: flag is false.
    if (size < 2) return
    if (rank == 0) then
      call MPI_Group_incl(world, 1, [1], from, ierr)
      call MPI_Win_post(from, 0, win, ierr)
      flag = .true.
      call MPI_Win_test(win, flag, ierr)
      call check(.not. flag, 'MPI_Win_test before MPI_Win_complete')
      call MPI_Group_free(from, ierr)
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 1) then
      call MPI_Group_incl(world, 1, [0], to, ierr)
      call MPI_Win_start(to, 0, win, ierr)
      call MPI_Win_complete(win, ierr)
      call MPI_Group_free(to, ierr)
    end if
    if (rank == 0) call MPI_Win_wait(win, ierr)
  end subroutine

  ! A counter that all draw from; a place that one of them wins.
  subroutine single_elements()
    integer :: one(1), drawn(1), none(1), mine(1), before(1), seen, total
    memory = 0
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
    one = 1
    none = 0
    mine = rank + 1
    call MPI_Win_lock_all(0, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_lock_all')
    call MPI_Fetch_and_op(one, drawn, MPI_INTEGER, 0, start, MPI_SUM, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Fetch_and_op')
    call MPI_Compare_and_swap(mine, none, before, MPI_INTEGER, 0, second, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Compare_and_swap')
    call MPI_Win_flush_local(0, win, ierr)
    call MPI_Win_flush_local_all(win, ierr)
    call MPI_Win_flush_all(win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_flush_all')
    call MPI_Win_unlock_all(win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_unlock_all')
    call MPI_Allreduce(drawn(1), total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(total == size * (size - 1) / 2, 'numbers drawn')
    seen = merge(1, 0, before(1) == 0)
    call MPI_Allreduce(seen, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(total == 1, 'winners')
  end subroutine

  subroutine requests()
    HANDLE(MPI_Request) :: request
    integer, asynchronous :: got(2), old(1)
    memory = 0
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
    call MPI_Win_lock_all(MPI_MODE_NOCHECK, win, ierr)
    origin(1:2) = [7, 8]
    call MPI_Rput(origin, 2, MPI_INTEGER, right, start, 2, MPI_INTEGER, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Raccumulate(origin, 1, MPI_INTEGER, right, second, 1, MPI_INTEGER, MPI_SUM, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Rget(got, 2, MPI_INTEGER, right, start, 2, MPI_INTEGER, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call check(ierr == MPI_SUCCESS .and. request == MPI_REQUEST_NULL, 'MPI_Wait')
    call check(all(got == [7, 15]), 'MPI_Rget after MPI_Rput and MPI_Raccumulate')
    call MPI_Rget_accumulate(origin, 1, MPI_INTEGER, old, 1, MPI_INTEGER, right, start, 1, MPI_INTEGER, &
                             MPI_REPLACE, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call check(old(1) == 7, 'MPI_Rget_accumulate')
    call MPI_Win_unlock_all(win, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win, ierr)
    call MPI_Win_sync(win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_sync')
    call check(all(memory(1:2) == [7, 15]), 'what the requests left')
    call MPI_Win_unlock(rank, win, ierr)
  end subroutine

  ! Over memory of MPI_Alloc_mem.
  subroutine created()
    integer :: values(2)
    origin = 0
    base = c_loc(origin(1))
    call MPI_Win_create(origin, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_create')
    call born_attributes(MPI_WIN_FLAVOR_CREATE)
    values = [rank, rank + 1]
    call MPI_Win_fence(0, win, ierr)
    call MPI_Put(values, 2, MPI_INTEGER, right, start, 2, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call check(all(origin(1:3) == [left, left + 1, 0]), 'what was put to created memory')
    call MPI_Win_free(win, ierr)
  end subroutine

  ! Each writes into its neighbour's part as into its own.
  subroutine shared()
    HANDLE(MPI_Comm) :: node
    integer(MPI_ADDRESS_KIND) :: size_there
    integer :: unit_there, node_rank, node_size, neighbour
    integer, pointer :: there(:)
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Comm_split_type')
    call MPI_Comm_rank(node, node_rank, ierr)
    call MPI_Comm_size(node, node_size, ierr)
    neighbour = modulo(node_rank + 1, node_size)
    call MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, node, base, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate_shared')
    call born_attributes(MPI_WIN_FLAVOR_SHARED)
    call c_f_pointer(base, memory, [count])
    call MPI_Win_shared_query(win, neighbour, size_there, unit_there, base, ierr)
    call check(ierr == MPI_SUCCESS .and. size_there == bytes .and. unit_there == unit, 'MPI_Win_shared_query')
    call c_f_pointer(base, there, [count])
    memory = -1
    call MPI_Win_fence(0, win, ierr)
    there(3) = node_rank
    call MPI_Win_fence(0, win, ierr)
    call check(memory(3) == modulo(node_rank - 1, node_size), 'what the neighbour stored')
    call MPI_Win_fence(0, win, ierr)
    call MPI_Win_free(win, ierr)
    call MPI_Comm_free(node, ierr)
  end subroutine

#ifdef LARGE_COUNTS
  subroutine large_counts()
    integer(MPI_ADDRESS_KIND), parameter :: wide_unit = unit
    integer(MPI_COUNT_KIND), parameter :: two = 2
    integer(MPI_ADDRESS_KIND) :: size_there, unit_there
    call MPI_Win_allocate(bytes, wide_unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate_c')
    call c_f_pointer(base, memory, [count])
    memory = -1
    origin = rank
    call MPI_Win_fence(0, win, ierr)
    call MPI_Put(origin, two, MPI_INTEGER, right, second, two, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call check(all(memory(1:4) == [-1, left, left, -1]), 'MPI_Put_c')
    call MPI_Win_free(win, ierr)
    call MPI_Win_allocate_shared(bytes, wide_unit, MPI_INFO_NULL, MPI_COMM_SELF, base, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate_shared_c')
    call MPI_Win_shared_query(win, 0, size_there, unit_there, base, ierr)
    call check(size_there == bytes .and. unit_there == unit, 'MPI_Win_shared_query_c')
    call MPI_Win_free(win, ierr)
  end subroutine
#endif
end program
