/* Conjugate gradients on a generated sparse matrix, with the messages of NAS CG: the grid of ranks,
 * the sum over a row in halves, the transpose. One program for three executors:
 *
 *   mpicc -O2 cg.c -lm -o cg;    mpiexec -n 4 ./cg --na 1400     real messages, real arithmetic
 *   smpicc -O2 cg.c -o cg;       smpirun -np 4 ... ./cg --skeleton --na 1500000
 *   the same with -trace-ti                                        a trace, for replay
 *
 * --skeleton: computes nothing, and tells the simulator how many floating-point operations a
 * product of matrix and vector has. The messages do not depend on the data. --untimed: outer
 * iterations before the measured ones; NAS CG has one. Source: Bailey et al., The NAS Parallel
 * Benchmarks (1991), and the description of CG's communication in docs/scale.md. Ranks: a power of
 * two.
 *
 * Prints "iterations SECONDS residual COMPUTING" on rank 0: seconds of the last rank, and the part
 * of them that is computing. Two ranks meet at each exchange, so for two ranks that part is the sum
 * over the pieces between exchanges, each of the rank that takes longer; for more ranks it is the
 * total of the rank that computes longest. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SIMGRID_SMPI_H__
#define SIMULATED 1
#endif

static int inner = 25;
static int nonzer = 7; /* entries of a row: nonzer * (nonzer + 1) in the count of operations */
static int outer = 1;
static int untimed;
static int skeleton;
static long na = 1400;

struct grid {
  int rank, ranks, rows, columns, row, column, levels;
  long piece;     /* elements of the vector that a row's ranks sum up */
  long half_from; /* first element that the transpose sends */
  long half;
  int across; /* the rank that has the transposed piece */
};

static void fail(const char* words) {
  fprintf(stderr, "cg: %s\n", words);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static struct grid make_grid(void) {
  struct grid g;
  MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g.ranks);
  int log = 0;
  while ((1 << log) < g.ranks) ++log;
  if ((1 << log) != g.ranks) fail("the number of ranks must be a power of two");
  g.rows = 1 << (log / 2);
  g.columns = 1 << ((log + 1) / 2);
  g.row = g.rank / g.columns;
  g.column = g.rank % g.columns;
  g.levels = (log + 1) / 2;
  if (na % g.columns != 0) fail("--na must be a multiple of the columns of ranks");
  g.piece = na / g.rows;
  g.half_from = 0;
  g.half = g.piece;
  if (g.rows == g.columns) {
    g.across = g.rank % g.rows * g.rows + g.rank / g.rows;
  } else {
    g.half = g.piece / 2;
    g.half_from = g.rank % 2 * g.half;
    g.across = 2 * (g.rank / 2 % g.rows * g.rows + g.rank / 2 / g.rows) + g.rank % 2;
  }
  return g;
}

/* The partner of the i-th level of a sum over a row, i from 1. */
static int partner(const struct grid* g, int level) {
  int distance = g->columns >> (level - 1);
  int place = (g->column + distance / 2) % distance + g->column / distance * distance;
  return g->row * g->columns + place;
}

/* Seconds that this rank computed between two meetings with the other rank. */
static struct {
  double* seconds;
  int count, room;
  double since; /* when it began to compute */
} computed;

static void start_to_count(void) {
  for (int i = 0; i < computed.room; ++i) computed.seconds[i] = 0;
  computed.count = 0;
  computed.since = MPI_Wtime();
}

/* `meets`: seconds computed from now on belong to the next piece. */
static void count_until(double now, int meets) {
  if (computed.count == computed.room) {
    computed.room = 2 * computed.room + 64;
    computed.seconds = realloc(computed.seconds, (size_t)computed.room * sizeof(double));
    if (computed.seconds == NULL) fail("no memory");
    for (int i = computed.count; i < computed.room; ++i) computed.seconds[i] = 0;
  }
  computed.seconds[computed.count] += now - computed.since;
  computed.count += meets;
}

/* Valid on rank 0. */
static double longest_computing(int ranks) {
  count_until(MPI_Wtime(), 1);
  if (ranks != 2) {
    for (int i = 1; i < computed.count; ++i) computed.seconds[0] += computed.seconds[i];
    computed.count = 1;
  }
  double sum = 0, *longest = malloc((size_t)computed.count * sizeof *longest);
  if (longest == NULL) fail("no memory");
  MPI_Reduce(computed.seconds, longest, computed.count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  for (int i = 0; i < computed.count; ++i) sum += longest[i];
  free(longest);
  free(computed.seconds);
  return sum;
}

static void exchange(const struct grid* g, int with, int tag, const double* out, double* in,
                     long count) {
  MPI_Request request;
  count_until(MPI_Wtime(), g->ranks == 2 && with != g->rank);
  MPI_Irecv(in, (int)count, MPI_DOUBLE, with, tag, MPI_COMM_WORLD, &request);
  MPI_Send(out, (int)count, MPI_DOUBLE, with, tag, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  computed.since = MPI_Wtime();
}

/* Sums `count` numbers over a row of ranks, one level after the other. */
static void sum_numbers(const struct grid* g, double* numbers, int count) {
  double got[2];
  for (int level = 1; level <= g->levels; ++level) {
    exchange(g, partner(g, level), level, numbers, got, count);
    for (int i = 0; i < count; ++i) numbers[i] += got[i];
  }
}

/* This rank's part of the matrix, A = diagonal + a band, symmetric: row i has 2 + width on the
 * diagonal and -1 at distances 1 to width / 2. It has the rows of the rank's row of the grid, and
 * the columns of its column. */
static void multiply(const struct grid* g, const double* x, double* w) {
  const long columns = na / g->columns, row0 = g->row * g->piece, column0 = g->column * columns;
  const long width = 2 * (nonzer / 2);
  if (skeleton) {
#ifdef SIMULATED
    smpi_execute_flops(2.0 * (double)na * nonzer * (nonzer + 1) / g->ranks);
#endif
    return;
  }
  memset(w, 0, (size_t)g->piece * sizeof *w);
  for (long i = 0; i < g->piece; ++i) {
    for (long d = -width / 2; d <= width / 2; ++d) {
      const long j = row0 + i + d - column0;
      if (j >= 0 && j < columns) w[i] += (d == 0 ? 2.0 + (double)width : -1.0) * x[j];
    }
  }
}

/* q = A p: the product of this rank's block, the sum over the row in halves, the transpose. */
static void product(const struct grid* g, const double* p, double* w, double* q) {
  multiply(g, p, w);
  /* With twice as many columns as rows, two ranks first swap halves and go on with their own. */
  long out = g->half == g->piece ? 0 : g->half - g->half_from;
  double* own = w + g->half_from;
  for (int level = g->levels; level >= 1; --level) {
    exchange(g, partner(g, level), level, w + out, q, g->half);
    for (long i = 0; !skeleton && i < g->half; ++i) own[i] += q[i];
    out = g->half_from;
  }
  if (g->levels == 0) {
    memcpy(q, w, (size_t)g->half * sizeof *q);
    return;
  }
  exchange(g, g->across, 1, own, q, g->half);
}

static double dot(const double* a, const double* b, long count) {
  double sum = 0;
  for (long i = 0; !skeleton && i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/* Solves A z = x by `inner` iterations; returns the norm of the residual. */
static double solve(const struct grid* g, const double* x, double* z, double* p, double* q,
                    double* r, double* w) {
  const long own = na / g->columns;
  for (long i = 0; !skeleton && i < own; ++i) z[i] = 0, r[i] = p[i] = x[i];
  double rho = dot(r, r, own);
  sum_numbers(g, &rho, 1);
  for (int iteration = 0; iteration < inner; ++iteration) {
    product(g, p, w, q);
    double d = dot(p, q, own);
    sum_numbers(g, &d, 1);
    const double alpha = d != 0 ? rho / d : 0, before = rho;
    for (long i = 0; !skeleton && i < own; ++i) z[i] += alpha * p[i], r[i] -= alpha * q[i];
    rho = dot(r, r, own);
    sum_numbers(g, &rho, 1);
    const double beta = before != 0 ? rho / before : 0;
    for (long i = 0; !skeleton && i < own; ++i) p[i] = r[i] + beta * p[i];
  }
  product(g, z, w, r);
  double sum = 0;
  for (long i = 0; !skeleton && i < own; ++i) sum += (x[i] - r[i]) * (x[i] - r[i]);
  sum_numbers(g, &sum, 1);
  return sqrt(sum);
}

static double* vector(long elements) {
#ifdef SIMULATED
  if (skeleton) return SMPI_SHARED_MALLOC((size_t)elements * sizeof(double));
#endif
  double* made = malloc((size_t)elements * sizeof *made);
  if (made == NULL) fail("no memory");
  /* Also for --skeleton: untouched pages all map to one page, which never leaves the cache. */
  for (long i = 0; i < elements; ++i) made[i] = 1;
  return made;
}

static void parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--skeleton") == 0) {
      skeleton = 1;
    } else if (strcmp(argv[i], "--na") == 0) {
      na = atol(value), ++i;
    } else if (strcmp(argv[i], "--nonzer") == 0) {
      nonzer = atoi(value), ++i;
    } else if (strcmp(argv[i], "--outer") == 0) {
      outer = atoi(value), ++i;
    } else if (strcmp(argv[i], "--untimed") == 0) {
      untimed = atoi(value), ++i;
    } else {
      fail("usage: cg [--skeleton] [--na N] [--nonzer N] [--outer N] [--untimed N]");
    }
  }
  if (na < 1 || nonzer < 1 || outer < 1) fail("--na, --nonzer and --outer need a number above 0");
  if (untimed < 0) fail("--untimed needs a number of at least 0");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  parse(argc, argv);
  const struct grid g = make_grid();
  const long most = g.piece > na / g.columns ? g.piece : na / g.columns;
  double *x = vector(most), *z = vector(most), *p = vector(most), *q = vector(most),
         *r = vector(most), *w = vector(most);
  int go = 1;
  MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
  double begin = 0, residual = 0;
  for (int iteration = -untimed; iteration < outer; ++iteration) {
    if (iteration == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      begin = MPI_Wtime();
      start_to_count();
    }
    residual = solve(&g, x, z, p, q, r, w);
    double norms[2] = {dot(x, z, na / g.columns), dot(z, z, na / g.columns)};
    sum_numbers(&g, norms, 2);
    for (long i = 0; !skeleton && i < na / g.columns; ++i) x[i] = z[i] / sqrt(norms[1]);
  }
  const double seconds = MPI_Wtime() - begin, computing = longest_computing(g.ranks);
  double longest;
  MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (g.rank == 0) printf("%d %.9f %.3e %.9f\n", outer, longest, residual, computing);
  MPI_Finalize();
  return 0;
}
