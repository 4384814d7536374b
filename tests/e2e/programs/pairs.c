/* The types for MPI_MINLOC and MPI_MAXLOC in a window, through every call that takes them. An
 * element changes as a whole, and what lies between value and index stays as it was, at the target
 * and at the origin. */
#include <mpi.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { cells = 24, max_pairs = 16, hole = 0xa5, largest = 30000 };

typedef enum { is_short, is_int, is_long, is_float, is_double, is_long_double } number;
static const size_t bytes_of[] = {sizeof(short), sizeof(int),    sizeof(long),
                                  sizeof(float), sizeof(double), sizeof(long double)};

typedef struct {
  const char* name;
  MPI_Datatype type;
  number value, index;
  size_t index_at, extent, base; /* base: of its cells in the window */
} pair;

static pair pairs[max_pairs];
static int pair_count, rank, ranks, mistakes;
static size_t window_bytes;
static char* memory;
static MPI_Win window;

static void wrong(const char* format, ...) {
  va_list list;
  if (++mistakes > 20) return;
  va_start(list, format);
  printf("rank %d: ", rank);
  vprintf(format, list);
  printf("\n");
  va_end(list);
}

static unsigned draw(unsigned* state, unsigned below) {
  *state = *state * 1103515245u + 12345u;
  return (*state >> 8) % below;
}

static void set(number kind, void* at, int to) {
  const short s = (short)to;
  const long l = to;
  const float f = (float)to;
  const double d = to;
  const long double ld = to;
  const void* from[] = {&s, &to, &l, &f, &d, &ld};
  memcpy(at, from[kind], bytes_of[kind]);
}

static int get(number kind, const void* at) {
  short s;
  int i;
  long l;
  float f;
  double d;
  long double ld;
  void* to[] = {&s, &i, &l, &f, &d, &ld};
  memcpy(to[kind], at, bytes_of[kind]);
  const int all[] = {kind == is_short ? s : 0,       kind == is_int ? i : 0,
                     kind == is_long ? (int)l : 0,   kind == is_float ? (int)f : 0,
                     kind == is_double ? (int)d : 0, kind == is_long_double ? (int)ld : 0};
  return all[kind];
}

/* ---- elements ---------------------------------------------------------------------------- */

static void write_pair(const pair* p, char* at, int value, int index) {
  set(p->value, at, value);
  set(p->index, at + p->index_at, index);
}

static int is_pair(const pair* p, const char* at, int value, int index) {
  return get(p->value, at) == value && get(p->index, at + p->index_at) == index;
}

static int holes_are(const pair* p, const char* at, int filler) {
  const size_t end = p->index_at + bytes_of[p->index];
  for (size_t i = bytes_of[p->value]; i < p->extent; ++i) {
    if (i >= p->index_at && i < end) continue;
    if ((unsigned char)at[i] != filler) return 0;
  }
  return 1;
}

static void add_pair(const char* name, MPI_Datatype type, number value, number index) {
  if (type == MPI_DATATYPE_NULL) return; /* an MPI without Fortran */
  pair* p = &pairs[pair_count++];
  MPI_Aint lb, extent;
  MPI_Type_get_extent(type, &lb, &extent);
  const size_t unit = bytes_of[index], value_bytes = bytes_of[value];
  *p = (pair){name, type, value, index, (value_bytes + unit - 1) / unit * unit, (size_t)extent, 0};
  p->base = window_bytes;
  window_bytes += (cells * p->extent + 63) / 64 * 64;
}

static void name_pairs(void) {
  add_pair("MPI_SHORT_INT", MPI_SHORT_INT, is_short, is_int);
  add_pair("MPI_2INT", MPI_2INT, is_int, is_int);
  add_pair("MPI_LONG_INT", MPI_LONG_INT, is_long, is_int);
  add_pair("MPI_FLOAT_INT", MPI_FLOAT_INT, is_float, is_int);
  add_pair("MPI_DOUBLE_INT", MPI_DOUBLE_INT, is_double, is_int);
  add_pair("MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, is_long_double, is_int);
#ifdef WITH_FORTRAN_TYPES
  add_pair("MPI_2INTEGER", MPI_2INTEGER, is_int, is_int);
  add_pair("MPI_2REAL", MPI_2REAL, is_float, is_float);
  add_pair("MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, is_double, is_double);
#endif
}

/* ---- against a model: each cell is one origin's for a round -------------------------------- */

typedef struct {
  int value, index;
} content;
static content model[max_pairs][cells];

enum { replace, minloc, maxloc, nothing, operation_count };
static MPI_Op operation(int which) {
  const MPI_Op all[] = {MPI_REPLACE, MPI_MINLOC, MPI_MAXLOC, MPI_NO_OP};
  return all[which];
}

static content combine(int which, content was, content with) {
  if (which == nothing) return was;
  if (which == replace) return with;
  if (was.value == with.value) {
    if (with.index < was.index) was.index = with.index;
    return was;
  }
  return (which == minloc) == (with.value < was.value) ? with : was;
}

typedef struct {
  char operands[cells * 32], results[cells * 32];
  MPI_Datatype target_type;
  int target_count, count, stride; /* in elements */
} operands;

/* `count` elements, `stride` apart at the target and side by side here. */
static void prepare(const pair* p, operands* with, int count, int stride) {
  memset(with->operands, hole, sizeof with->operands);
  memset(with->results, hole, sizeof with->results);
  with->count = count;
  with->stride = stride;
  with->target_type = p->type;
  with->target_count = count;
  if (stride == 1) return;
  MPI_Type_vector(count, 1, stride, p->type, &with->target_type);
  MPI_Type_commit(&with->target_type);
  with->target_count = 1;
}

/* MPI_Get_accumulate does what a call cannot do. */
enum {
  by_accumulate,
  by_raccumulate,
  by_get_accumulate,
  by_rget_accumulate,
  by_fetch,
  by_put,
  calls
};
enum { large = 1 };

static void call(const pair* p, operands* o, int how, int form, int which, int target,
                 MPI_Aint at) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Op op = operation(which);
  const int fetched = o->stride == 1 && o->count == 1;
#define ACCUMULATE(C)                                                                            \
  MPI_Accumulate##C(o->operands, o->count, p->type, target, at, o->target_count, o->target_type, \
                    op, window)
#define RACCUMULATE(C)                                                                            \
  MPI_Raccumulate##C(o->operands, o->count, p->type, target, at, o->target_count, o->target_type, \
                     op, window, &request)
#define GET_ACCUMULATE(C)                                                                          \
  MPI_Get_accumulate##C(o->operands, o->count, p->type, o->results, o->count, p->type, target, at, \
                        o->target_count, o->target_type, op, window)
#define RGET_ACCUMULATE(C)                                                                      \
  MPI_Rget_accumulate##C(o->operands, o->count, p->type, o->results, o->count, p->type, target, \
                         at, o->target_count, o->target_type, op, window, &request)
#ifdef WITH_LARGE_COUNTS
#define EITHER(CALL) ((form & large) != 0 ? CALL(_c) : CALL())
#else
#define EITHER(CALL) ((void)form, CALL())
#endif
  if (how == by_accumulate && which != nothing) {
    EITHER(ACCUMULATE);
  } else if (how == by_raccumulate && which != nothing) {
    EITHER(RACCUMULATE);
  } else if (how == by_rget_accumulate) {
    EITHER(RGET_ACCUMULATE);
  } else if (how == by_fetch && fetched) {
    MPI_Fetch_and_op(o->operands, o->results, p->type, target, at, op, window);
  } else if (how == by_put && which == replace) {
    MPI_Put(o->operands, o->count, p->type, target, at, o->target_count, o->target_type, window);
  } else {
    EITHER(GET_ACCUMULATE);
  }
  if (request != MPI_REQUEST_NULL) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int gives_results(int how, int which) {
  if (how == by_accumulate || how == by_raccumulate) return which == nothing;
  return how != by_put || which != replace;
}

static void change_some(const pair* p, content* mine, int target, unsigned* chance) {
  static operands o;
  const int stride = 1 + (int)draw(chance, 3);
  const int first = (int)draw(chance, cells);
  const int room = (cells - first + stride - 1) / stride;
  const int count = draw(chance, 2) == 0 ? 1 : 1 + (int)draw(chance, (unsigned)room);
  const int which = (int)draw(chance, operation_count), how = (int)draw(chance, calls);
  const int form = (int)draw(chance, 2);
  prepare(p, &o, count, count == 1 ? 1 : stride);
  content before[cells];
  for (int i = 0; i < count; ++i) {
    content* const cell = &mine[first + i * o.stride];
    const content with = {(int)draw(chance, 50), (int)draw(chance, largest)};
    write_pair(p, o.operands + (size_t)i * p->extent, with.value, with.index);
    before[i] = *cell;
    *cell = combine(which, *cell, with);
  }
  const MPI_Aint at = (MPI_Aint)(p->base + (size_t)first * p->extent);
  call(p, &o, how, form, which, target, at);
  MPI_Win_flush(target, window);
  const int given = gives_results(how, which);
  for (int i = 0; i < count; ++i) {
    const char* const result = o.results + (size_t)i * p->extent;
    if (given && !is_pair(p, result, before[i].value, before[i].index))
      wrong("%s, call %d, op %d: got (%d, %d), not (%d, %d)", p->name, how, which,
            get(p->value, result), get(p->index, result + p->index_at), before[i].value,
            before[i].index);
    if (!holes_are(p, result, hole)) wrong("%s, call %d: a hole of the result", p->name, how);
  }
  if (o.target_type != p->type) MPI_Type_free(&o.target_type);
}

static void check_own(int owner) {
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  for (int n = 0; n < pair_count; ++n) {
    for (int cell = 0; cell < cells; ++cell) {
      const char* const at = memory + pairs[n].base + (size_t)cell * pairs[n].extent;
      const content want = model[n][cell];
      if (owner >= 0 && !is_pair(&pairs[n], at, want.value, want.index))
        wrong("%s: cell %d holds (%d, %d), not (%d, %d)", pairs[n].name, cell,
              get(pairs[n].value, at), get(pairs[n].index, at + pairs[n].index_at), want.value,
              want.index);
      if (!holes_are(&pairs[n], at, hole)) wrong("%s: a hole of cell %d", pairs[n].name, cell);
    }
  }
  MPI_Win_unlock(rank, window);
}

/* Rank r changes the memory of rank r + round + 1, whose owner then checks it. */
static void against_a_model(int rounds, int changes) {
  unsigned chance = 17u + (unsigned)rank;
  for (int round = 0; round < rounds; ++round) {
    const int target = (rank + round + 1) % ranks;
    const int source = ((rank - round - 1) % ranks + ranks) % ranks;
    content theirs[max_pairs][cells];
    MPI_Sendrecv(model, sizeof model, MPI_BYTE, source, 0, theirs, sizeof theirs, MPI_BYTE, target,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const int kind = round % 3 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
    if (round % 3 == 2) {
      MPI_Win_lock_all(0, window);
    } else {
      MPI_Win_lock(kind, target, 0, window);
    }
    for (int i = 0; i < changes; ++i) {
      const unsigned n = draw(&chance, (unsigned)pair_count);
      change_some(&pairs[n], theirs[n], target, &chance);
    }
    if (round % 3 == 2) {
      MPI_Win_unlock_all(window);
    } else {
      MPI_Win_unlock(target, window);
    }
    MPI_Sendrecv(theirs, sizeof theirs, MPI_BYTE, target, 1, model, sizeof model, MPI_BYTE, source,
                 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    check_own(source);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* ---- all at once: the index of what anybody wrote follows from its value -------------------- */

static int index_of(int value) {
  return (value * 7 + 3) % largest;
}

static void at_once(int rounds) {
  static operands o;
  unsigned chance = 99u + (unsigned)rank;
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < rounds * pair_count; ++i) {
    const pair* const p = &pairs[i % pair_count];
    const MPI_Aint at = (MPI_Aint)(p->base + draw(&chance, 2) * p->extent);
    const int ops[] = {replace, nothing, nothing, maxloc};
    const int which = ops[draw(&chance, 4)];
    const int hows[] = {by_accumulate, by_get_accumulate, by_fetch};
    const int how = hows[draw(&chance, 3)], value = (int)draw(&chance, largest);
    prepare(p, &o, 1, 1);
    write_pair(p, o.operands, value, index_of(value));
    call(p, &o, how, 0, which, 0, at);
    MPI_Win_flush(0, window);
    if (!gives_results(how, which)) continue;
    const int got = get(p->value, o.results);
    if (!is_pair(p, o.results, got, index_of(got)))
      wrong("%s: value %d of one operation with index %d of another", p->name, got,
            get(p->index, o.results + p->index_at));
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void fill(void) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
  memset(memory, hole, window_bytes);
  for (int n = 0; n < pair_count; ++n) {
    for (int cell = 0; cell < cells; ++cell) {
      char* const at = memory + pairs[n].base + (size_t)cell * pairs[n].extent;
      model[n][cell] = (content){25, index_of(25)};
      write_pair(&pairs[n], at, 25, index_of(25));
    }
  }
  MPI_Win_unlock(rank, window);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 6, changes = argc > 2 ? atoi(argv[2]) : 200;
  int all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  name_pairs();
  MPI_Win_allocate((MPI_Aint)window_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  fill();
  against_a_model(rounds, changes);
  fill();
  at_once(changes);
  check_own(-1);
  MPI_Win_free(&window);
  MPI_Allreduce(&mistakes, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("pairs: %s: %d types, %d mistakes\n", all == 0 ? "ok" : "wrong", pair_count, all);
  MPI_Finalize();
  return all != 0;
}
