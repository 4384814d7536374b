! Coarrays on images that each wait for another's event, lock or atomic, and then load plainly what
! that one put; or that store plainly, and are read by others.
program coarrays
  use, intrinsic :: iso_fortran_env, only: event_type, lock_type, atomic_int_kind
  implicit none
  integer, parameter :: rounds = 20, elements = 1500
  integer :: put(elements, 3)[*], stored(elements)[*], counter[*], sum_of, wrong
  type(event_type) :: has_put[*], has_stored[*], has_read[*]
  type(lock_type) :: one[*]
  integer(atomic_int_kind) :: flag[*], found
  integer :: me, images, left, right, round, fetched(elements)
  integer, allocatable :: neighbors(:)

  me = this_image()
  images = num_images()
  right = merge(1, me + 1, me == images)
  left = merge(images, me - 1, me == 1)
  neighbors = [left]
  if (images > 2) neighbors = [left, right]
  put = 0
  stored = 0
  counter = 0
  flag = 0
  wrong = 0
  sync all

  do round = 1, rounds
    put(:, 1)[right] = 100 * round + me
    event post(has_put[right])
    event wait(has_put)
    call expect(put(:, 1), 100 * round + left, "put before an event")

    stored = 1000 * round + me
    event post(has_stored[left])
    event wait(has_stored)
    fetched = stored(:)[right]
    call expect(fetched, 1000 * round + right, "stored before an event")
    event post(has_read[right])
    event wait(has_read)

    put(:, 2)[right] = 200 * round + me
    sync memory
    call atomic_define(flag[right], round)
    found = 0
    do while (found < round)
      call atomic_ref(found, flag)
    end do
    call expect(put(:, 2), 200 * round + left, "put before an atomic")

    put(:, 3)[right] = 300 * round + me
    sync images(neighbors)
    call expect(put(:, 3), 300 * round + left, "put before sync images")
    sync images(neighbors)

    lock(one[1])
    counter[1] = counter[1] + 1
    unlock(one[1])

    sum_of = me
    call co_sum(sum_of)
    call expect([sum_of], images * (images + 1) / 2, "co_sum")
  end do
  sync all
  if (me == 1) call expect([counter], rounds * images, "counted under a lock")
  call co_sum(wrong)
  if (me == 1 .and. wrong == 0) print *, "coarrays: ok:", images, "images"
  if (wrong /= 0) error stop 3

contains

  subroutine expect(values, wanted, what)
    integer, intent(in) :: values(:), wanted
    character(*), intent(in) :: what
    if (all(values == wanted)) return
    wrong = wrong + 1
    print *, "image", me, "round", round, what, ":", count(values /= wanted), "wrong, one is", &
      values(findloc(values /= wanted, .true., dim=1)), "not", wanted
  end subroutine
end program
