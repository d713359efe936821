// What shares of a budget buy and cost. The first half is the mathematics, of das/design/homogeneous.py
// and das/accounting/worst.py; the second is what one sees.
"use strict";
(() => {
const D = JSON.parse(document.getElementById("choose-data").textContent);
const LEVELS = D.levels.length, QUERIES = D.queries.length, ROWS = D.queries[0].index.length;
const Z = 1.959963984540054;
const EACH = D.sensitivity === 2 ? 1 : 2;  // the precision that one rho buys
const sum = (some) => some.reduce((a, b) => a + b, 0);

// --- shares: whole numbers, so that every share is an exact fraction

const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a; };
function exact(text) {  // "a/b" or a decimal, as [a, b]
  const found = /^\s*(\d+)(?:\.(\d*))?(?:e([+-]?\d{1,2}))?(?:\s*\/\s*(\d+))?\s*$/i.exec(text);
  if (!found) return null;
  const power = Number(found[3] ?? 0) - (found[2] ?? "").length;
  const a = BigInt(found[1] + (found[2] ?? "")) * 10n ** BigInt(Math.max(power, 0));
  const b = BigInt(found[4] ?? 1) * 10n ** BigInt(Math.max(-power, 0));
  if (a === 0n || b === 0n) return null;
  const d = gcd(a, b);
  return [a / d, b / d];
}
function near([a, b]) {  // the nearest number, of integers of any length
  const shift = Math.max(b.toString(2).length - a.toString(2).length + 60, 0);
  return Number((a << BigInt(shift)) / b) / 2 ** shift;
}
function fraction(a, b) { const d = gcd(a, b); return b === d ? `${a / d}` : `${a / d}/${b / d}`; }
const total = (weights) => weights.reduce((a, b) => a + b, 0n);
const parts = (weights) => { const all = total(weights) || 1n; return weights.map((w) => near([w, all])); };
const read = (w) => ({ rho: w.rho, levels: w.levels.map(BigInt), queries: w.queries.map((q) => q.map(BigInt)) });
const PRESETS = Object.fromEntries(Object.entries(D.presets).map(([name, w]) => [name, read(w)]));
PRESETS["Best for the targets"] = read(D.curve.weights);
{
  const own = Object.values(PRESETS)[0];
  PRESETS["Equal shares"] = { rho: own.rho, levels: own.levels.map(() => 1n),
                              queries: own.queries.map((q) => q.map((w) => (w ? 1n : 0n))) };
}
const MILLION = 1000000;
function moved(weights, at, share) {  // one share changed, the others in proportion
  const old = parts(weights), rest = 1 - old[at];
  const others = weights.filter((w, i) => w && i !== at).length;
  if (!others) return weights;
  share = Math.min(Math.max(share, 0), 1 - others / MILLION);
  const out = weights.map((w, i) => (i === at || !w ? 0 : Math.max(1, Math.round(old[i] / rest * (1 - share) * MILLION))));
  const left = Math.max(MILLION - sum(out), share > 0 ? 1 : 0);
  out[at] = left <= others && share === 0 ? 0 : left;
  return out.map(BigInt);
}

// --- a plan: the rho of each level and query, and what follows

function planOf(state, rho = near(exact(state.rho))) {
  const levels = parts(state.levels), queries = state.queries.map(parts);
  return { rho, levels: levels.map((s) => s * rho), queries, each: queries.map((q, l) => q.map((s) => s * levels[l] * rho)) };
}

const UNIT = D.units, LAST = UNIT[LEVELS - 1];
const DEPTH = UNIT.map((n) => LAST / n), RANK = UNIT.map((n, g) => n - (g ? UNIT[g - 1] : 0));
const KINDS = D.multiplicity.length, NONE = 1e-13;
const SAME = D.queries.map((q) => {  // pairs of rows with the same answer
  const pairs = [];
  q.index.forEach((a, i) => q.index.forEach((b, j) => { if (a === b) pairs.push(i * ROWS + j); }));
  return pairs;
});
function inverse(matrix, n = ROWS) {
  const a = matrix.slice(), out = new Float64Array(n * n);
  let trace = 0;
  for (let i = 0; i < n; i++) trace += a[i * n + i];
  for (let i = 0; i < n; i++) { a[i * n + i] += 1e-15 * Math.max(trace, 1e-300); out[i * n + i] = 1; }
  for (let i = 0; i < n; i++) {  // positive definite: no pivots
    const pivot = 1 / a[i * n + i];
    for (let k = 0; k < n; k++) { a[i * n + k] *= pivot; out[i * n + k] *= pivot; }
    for (let j = 0; j < n; j++) {
      const f = a[j * n + i];
      if (j === i || f === 0) continue;
      for (let k = 0; k < n; k++) { a[j * n + k] -= f * a[i * n + k]; out[j * n + k] -= f * out[i * n + k]; }
    }
  }
  return out;
}
function givenTotal(c, n = ROWS) {
  const shift = new Float64Array(n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) shift[i] += c[i * n + j];
  const all = sum([...shift]);
  return c.map((x, at) => {
    const rest = x - shift[Math.floor(at / n)] * shift[at % n] / all;
    return Math.abs(rest) > 1e-13 * Math.abs(x) ? rest : 0;
  });
}
const matrices = () => Array.from({ length: LEVELS }, () => Array.from({ length: KINDS }, () => new Float64Array(ROWS * ROWS)));
function add(into, from, times) { for (let i = 0; i < into.length; i++) into[i] += times * from[i]; }

// The inverse of Lambda_g for each contrast g of the tree and each of the attributes; null where the lowest level
// does not tell all cells apart.
function inverses(plan) {
  const own = matrices(), out = matrices();
  for (let l = 0; l < LEVELS; l++) for (let q = 0; q < QUERIES; q++) {
    const p = EACH * plan.each[l][q];
    if (p) D.queries[q].factor.forEach((f, m) => { if (f) for (const at of SAME[q]) own[l][m][at] += p * f; });
  }
  for (let m = 0; m < KINDS; m++) {
    const summed = new Float64Array(ROWS * ROWS);
    for (let g = LEVELS - 1; g >= 0; g--) {
      add(summed, own[g][m], DEPTH[g]);
      const c = inverse(summed);
      if (g === LEVELS - 1) {
        let trace = 0, most = 0;
        for (let i = 0; i < ROWS; i++) { trace += summed[i * ROWS + i]; most = Math.max(most, c[i * ROWS + i]); }
        if (!(most < 1e14 / Math.max(trace, 1e-250))) return null;
      }
      out[g][m] = g <= D.known && m === 0 ? givenTotal(c) : c;
    }
  }
  return out;
}
// The variance of an answer of each query at each level, from all measurements, and how much the mean log variance
// falls for a little more of each measurement.
function variances(c) {
  return D.levels.map((_, l) => {
    const v = D.multiplicity.map((_, m) => {
      const out = new Float64Array(ROWS * ROWS);
      for (let g = 0; g <= l; g++) add(out, c[g][m], RANK[g] * DEPTH[l] / UNIT[l]);
      return out;
    });
    return D.queries.map((q, k) => {
      let f = 0, size = 0;
      q.factor.forEach((factor, m) => {
        for (const at of SAME[k]) {
          const term = factor * D.multiplicity[m] / q.answers * v[m][at];
          f += term; size += Math.abs(term);
        }
      });
      return f > NONE * size ? f : 0;
    });
  });
}
function product(a, b, n = ROWS) {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) for (let k = 0; k < n; k++) if (a[i * n + k]) {
    for (let j = 0; j < n; j++) out[i * n + j] += a[i * n + k] * b[k * n + j];
  }
  return out;
}
function worth(c, f, plan) {
  const bar = matrices(), measured = plan.each.flat().filter((x) => x).length;
  f.forEach((row, l) => row.forEach((x, q) => {
    if (x && plan.each[l][q]) D.queries[q].factor.forEach((factor, m) => {
      for (const at of SAME[q]) bar[l][m][at] += factor * D.multiplicity[m] / D.queries[q].answers / x / measured;
    });
  }));
  const inner = c.map((of, g) => of.map((cg, m) => {
    const seen = new Float64Array(ROWS * ROWS);
    for (let l = g; l < LEVELS; l++) add(seen, bar[l][m], RANK[g] * DEPTH[l] / UNIT[l]);
    return product(product(cg, seen), cg);
  }));
  return D.levels.map((_, l) => D.queries.map((q, k) => {
    let h = 0;
    for (let g = 0; g <= l; g++) q.factor.forEach((factor, m) => {
      if (factor) for (const at of SAME[k]) h += DEPTH[l] * factor * inner[g][m][at];
    });
    return EACH * Math.abs(h) * plan.rho;
  }));
}
// --- areas of real blocks, as das/design/recursion.py and das/design/areas.py have them

const A = D.areas;
const ALIKE = A?.sorts.map(([rows]) => A.queries.map(({ index }) => {  // pairs of a node's rows with the same answer
  const pairs = [];
  rows.forEach((a, i) => rows.forEach((b, j) => { if (index[a] === index[b]) pairs.push(i * rows.length + j); }));
  return pairs;
}));
const PLACES = A?.sorts.map(([big]) => A.sorts.map(([small]) => {  // where a matrix is in one of a node with more rows
  const at = small.map((r) => big.indexOf(r));
  return at.includes(-1) ? null : at.flatMap((i) => at.map((j) => i * big.length + j));
}));
function gather(into, sort, parts, matrix, sortOf) {
  for (let e = 0; e < parts.length; e += 2) {
    const from = matrix[parts[e]], at = PLACES[sort][sortOf(parts[e])];
    for (let i = 0; i < from.length; i++) into[at[i]] += parts[e + 1] * from[i];
  }
  return into;
}
const turned = (a, n) => a.map((_, at) => a[(at % n) * n + Math.floor(at / n)]);
// The variance of an answer of each query in each area.
function areaVariances(plan) {
  const zeros = () => A.pieces.map(() => new Float64Array(QUERIES)), value = zeros(), size = zeros();
  const rows = A.sorts.map((s) => s[0].length), empty = (sort) => new Float64Array(rows[sort] ** 2);
  const thing = (t) => A.things[t][0], piece = (i) => thing(A.pieces[i][0]);
  const precision = D.classes.map(([level, holds]) => plan.queries[level].map((s) => EACH * s * sum(holds.map((l) => plan.levels[l]))));
  for (let m = 0; m < KINDS; m++) {
    const own = A.sorts.map(([, classes], sort) => {
      const matrix = empty(sort);
      for (const k of classes) precision[k].forEach((p, q) => {
        const times = p * A.queries[q].factor[m];
        if (times) for (const at of ALIKE[sort][q]) matrix[at] += times;
      });
      return matrix;
    });
    const c = [], k = [], inward = [];
    for (const [sort, parts] of A.things) {
      const n = rows[sort], [, , known, settled] = A.sorts[sort];
      let precise = own[sort];
      if (parts.length) {
        const s = gather(empty(sort), sort, parts, c, thing);
        if (settled && m === 0) {  // the totals of all parts are known
          let trace = 0;
          for (let i = 0; i < n; i++) trace += s[i * n + i];
          for (let i = 0; i < n * n; i++) s[i] += Math.max(trace, 1);
        }
        k[c.length] = inverse(s, n);
        precise = k[c.length].map((x, at) => x + own[sort][at]);
      }
      c.push(known && m === 0 ? givenTotal(inverse(precise, n), n) : inverse(precise, n));
    }
    A.pieces.forEach(([t, whole, cut], i) => {
      const sort = thing(t), n = rows[sort];
      let rest = c[t];
      if (whole.length || cut.length) {
        const w = gather(empty(sort), sort, whole, c, thing), p = gather(w.slice(), sort, cut, inward, piece);
        const b = product(p, k[t], n), off = product(b, turned(p, n), n);
        inward[i] = product(b, c[t], n);
        const back = product(inward[i], turned(b, n), n);
        rest = w.map((x, at) => x - off[at] + back[at]);
      }
      A.queries.forEach(({ factor }, q) => {
        const times = factor[m] * D.multiplicity[m] / A.answers[q];
        if (times) for (const at of ALIKE[sort][q]) { value[i][q] += times * rest[at]; size[i][q] += Math.abs(times * rest[at]); }
      });
    });
  }
  return A.areas.map((parts) => D.queries.map((_, q) => {
    let f = 0, whole = 0;
    for (let e = 0; e < parts.length; e += 2) { f += parts[e + 1] * value[parts[e]][q]; whole += parts[e + 1] * size[parts[e]][q]; }
    return f > NONE * whole ? f : 0;
  }));
}
// The sum of exp(-k^2 / (2 sigma^2)) over all whole numbers k.
function theta(sigmaSq) {
  if (sigmaSq >= 1) return Math.sqrt(2 * Math.PI * sigmaSq) * (1 + 2 * Math.exp(-2 * Math.PI ** 2 * sigmaSq));
  let all = 1;
  for (let k = 1; k < 20; k++) all += 2 * Math.exp(-k * k / (2 * sigmaSq));
  return all;
}
// The least m with P[|X| <= m] of at least 95 %, as das/model/mechanisms.py has it: the continuous quantile for noise
// wider than a thousand.
function noiseMargin(sigmaSq) {
  if (sigmaSq > 1e6) return Math.ceil(Z * Math.sqrt(sigmaSq));
  const whole = theta(sigmaSq);
  let held = 1, m = 0;
  while (held < 0.95 * whole) { m++; held += 2 * Math.exp(-m * m / (2 * sigmaSq)); }
  return m;
}

// --- privacy

// log M(c + iy) of draws of precision p, M = E exp(zL): the continuous part, and a theta function by Poisson's formula.
// M(z + 2 pi i/p) = -M(z) keeps |y| below pi/p, where few terms count. Narrow noise has few values.
function addLog(p, c, y, re, im) {
  if (p > 2 * Math.PI) {
    const far = Math.ceil(Math.sqrt(84 / p)) + 1, middle = Math.round(c), weights = [];
    let zero = 0;
    for (let k = -far; k <= far; k++) { zero += Math.exp(-p * k * k / 2); weights.push(Math.exp(-p / 2 * k * (k + 2 * (middle - c)))); }
    for (let n = 0; n < y.length; n++) {
      let a = 0, b = 0;
      weights.forEach((w, i) => { const turn = p * y[n] * (middle + i - far + 0.5); a += w * Math.cos(turn); b += w * Math.sin(turn); });
      re[n] += p / 2 * (c * c + c - (middle - c) ** 2) + Math.log(Math.hypot(a, b) / zero); im[n] += Math.atan2(b, a);
    }
    return;
  }
  const sigma = 1 / p, period = 2 * Math.PI / p, q = 2 * Math.PI ** 2 * sigma;
  let zero = 1;
  for (let k = 1, t; (t = 2 * Math.exp(-q * k * k)) > 1e-18; k++) zero += t;
  for (let n = 0; n < y.length; n++) {
    const turns = Math.round(y[n] / period), at = y[n] - turns * period;
    let logRe = p / 2 * (c * c + c - at * at), logIm = p / 2 * (2 * c + 1) * at + Math.PI * turns;
    if (2 * Math.PI * Math.abs(at) > q - 42) {
      let a = 1, b = 0;
      for (let k = 1; k < 400; k++) {
        const size = Math.exp(-q * k * k + 2 * Math.PI * k * Math.abs(at));
        const turn = 2 * Math.PI * k * c, back = Math.exp(-4 * Math.PI * k * Math.abs(at));
        a += size * Math.cos(turn) * (1 + back);
        b -= size * Math.sin(turn) * (1 - back) * Math.sign(at);
        if (size < 1e-19 && k * q > Math.PI * Math.abs(at)) break;
      }
      logRe += Math.log(Math.hypot(a, b) / zero); logIm += Math.atan2(b, a);
    }
    re[n] += logRe; im[n] += logIm;
  }
}
const touches = (relation, l, q) => relation.mask.charCodeAt(l * QUERIES + q) === 49;
function drawsOf(relation, plan) {  // the precisions of each class
  return D.classes.map(([level, holds]) => {
    const whole = EACH * sum(holds.map((l) => plan.levels[l]));
    return plan.queries[level].map((s, q) => (touches(relation, level, q) ? whole * s : 0)).filter((p) => p > 0);
  });
}

// An upper end of epsilon at delta for the worst move of a relation. A tiny Gaussian of rho * smooth is composed with
// each move: leaving it out is post-processing, so the sum bounds delta from above, and it ends the sum. All aliases of
// the periodic sum are positive, too.
function epsilon(relation, plan, smooth, delta = D.delta[1]) {
  const draws = drawsOf(relation, plan), moves = D.moves[relation.moves];
  const rhoOf = D.paths.map((path) => sum(path.map((k) => sum(draws[k]))) / 2);
  const rho = Math.max(...moves.map((move) => sum(move.map((i) => rhoOf[i]))));
  if (!(rho > 0)) return 0;
  const extra = rho * smooth, r = rho + extra, target = Math.log(delta);
  const top = r + 2 * Math.sqrt(-r * target);
  let low = 1e-9, high = 1e9;
  for (let i = 0; i < 200; i++) {  // the saddle point, near which the terms have the size of the answer
    const c = Math.sqrt(low * high);
    if (r * (2 * c + 1) - 0.94 * top - 1 / c - 1 / (c + 1) > 0) high = c; else low = c;
  }
  const c = high, period = 8 * Math.sqrt(r), TAU = 32;
  const N = Math.ceil(Math.sqrt(TAU / extra) * period / (2 * Math.PI));
  const y = Float64Array.from({ length: N + 1 }, (_, n) => 2 * Math.PI * n / period);
  const zeros = () => [new Float64Array(N + 1), new Float64Array(N + 1)];
  const ofClass = draws.map((ps) => { const [re, im] = zeros(); ps.forEach((p) => addLog(p, c, y, re, im)); return [re, im]; });
  const ofPath = D.paths.map((path) => {
    const [re, im] = zeros();
    for (const k of path) { add(re, ofClass[k][0], 1); add(im, ofClass[k][1], 1); }
    const size = re[0];
    for (let n = 0; n <= N; n++) {
      const r = Math.exp(re[n] - size), angle = im[n];
      re[n] = r * Math.cos(angle); im[n] = r * Math.sin(angle);
    }
    return [re, im, size];
  });
  const ONE = [new Float64Array(N + 1).fill(1), new Float64Array(N + 1), 0];
  const kernel = y.map((v) => Math.exp(-extra * v * v) / Math.hypot(c * c + c - v * v, (2 * c + 1) * v) * (v ? 2 : 1) / period);
  const phase = y.map((v) => extra * (2 * c + 1) * v - Math.atan2((2 * c + 1) * v, c * c + c - v * v));
  const slack = Math.exp(-TAU) / (2 * c) + 1e-12 * sum([...kernel]);  // the nodes beyond, and rounding
  const turnedRe = new Float64Array(N + 1), turnedIm = new Float64Array(N + 1);
  function turn(e) {
    for (let n = 0; n <= N; n++) {
      turnedRe[n] = kernel[n] * Math.cos(phase[n] - e * y[n]);
      turnedIm[n] = kernel[n] * Math.sin(phase[n] - e * y[n]);
    }
  }
  function logDelta(move, e) {
    const [ar, ai, size] = ofPath[move[0]], [br, bi, more] = move.length > 1 ? ofPath[move[1]] : ONE;
    let s = slack;
    for (let n = 0; n <= N; n++) {
      const xr = ar[n] * br[n] - ai[n] * bi[n], xi = ar[n] * bi[n] + ai[n] * br[n];
      s += turnedRe[n] * xr - turnedIm[n] * xi;
    }
    return size + more + extra * (c * c + c) - e * c + Math.log(Math.max(s, slack));
  }
  let found = 0;
  for (;;) {
    turn(found);
    let worst = target, at = null;
    for (const move of moves) {
      const d = logDelta(move, found);
      if (d > worst) { worst = d; at = move; }
    }
    if (at === null || found >= top) return Math.min(found * (1 + 1e-9), top);  // rho alone bounds it by the latter
    let a = found, b = 1.01 * top;
    while (b - a > 1e-9 * b) {
      const middle = (a + b) / 2;
      turn(middle);
      if (logDelta(at, middle) > target) a = middle; else b = middle;
    }
    found = b;
  }
}

// What an intruder believes of the truth, on average, who takes it for as likely as ``prior``: E of the posterior, from
// the Laplace transform of the logistic function at Re z = -1/2, where M is real.
function believed(precisions, prior) {
  const odds = Math.log(prior / (1 - prior)), step = 0.04, y = Float64Array.from({ length: 330 }, (_, n) => n * step);
  const re = new Float64Array(y.length), im = new Float64Array(y.length);
  precisions.forEach((p) => addLog(p, -0.5, y, re, im));
  let wrong = 0;
  y.forEach((v, n) => {
    wrong += (n ? 1 : 0.5) * step * Math.exp(re[n]) * Math.cos(im[n]) * Math.cos(odds * v) / Math.cosh(Math.PI * v);
  });
  return 1 - Math.exp(-odds / 2) * wrong;
}
// The noise of one count of precision p: the log-odds that its values add for the truth, the highest first, and how
// likely they are. Of very wide noise, neighbors are taken at the highest; narrower noise than exp(-50) is none.
function noiseOf(p) {
  p = Math.min(Math.max(p, 1e-8), 100);
  const far = Math.ceil(Math.sqrt(80 / p)) + 1, width = Math.ceil(far / 1000), odds = [], chance = [];
  for (let z = far; z >= -far; z--) {
    if ((far - z) % width === 0) { odds.push(p / 2 * (2 * z + 1)); chance.push(0); }
    chance[chance.length - 1] += Math.exp(-p * z * z / 2);
  }
  const all = sum(chance);
  return { odds, chance: chance.map((t) => t / all) };
}
// What Kazan and Reiter's second level adds (das/risk/hierarchy.py): the noisy count x2* of the unit above, and y1* of
// its d other units. With a flat prior of x2 on all whole numbers their likelihood is that of v = x2* - y1*, which is the
// bit plus two noises. The bound x2 >= x1 of the paper only lowers the posterior: x2 has the same distribution given x1 = 1
// as given 0 but for its mean, which is higher by less than 1, so that P[x2 >= 1 | 1] <= P[x2 >= 0 | 0]. The sum of two
// narrow lattices is one, by Poisson's formula to 1e-16; and less than all of one of the noises says no more.
function above(p2, y1) {
  const one = 1 / (1 / p2 + 1 / y1), least = Math.min(p2, y1);
  if (p2 + y1 <= 0.5) return one;
  if (least < 2e-4) return least;
  const a = noiseOf(p2).chance, b = noiseOf(y1).chance, chance = new Array(a.length + b.length - 1).fill(0);
  a.forEach((s, i) => b.forEach((t, j) => { chance[i + j] += s * t; }));
  const odds = chance.map((g, i) => (i ? Math.log(g / chance[i - 1]) : 0));
  odds[0] = odds[1];
  return { odds, chance };
}
// The average belief from a count of precision p and what is above it, and what is exceeded in at most one case of 1/delta.
function twoLevels(p, more, prior) {
  const start = Math.log(prior / (1 - prior)), expit = (x) => 1 / (1 + Math.exp(-x)), own = noiseOf(p);
  const other = typeof more === "number" ? noiseOf(more) : more ?? { odds: [0], chance: [1] };
  const average = more && typeof more === "object"
    ? sum(other.odds.map((e, j) => other.chance[j] * sum(own.odds.map((o, i) => own.chance[i] * expit(start + e + o)))))
    : believed(more ? [p, more] : [p], prior);
  let low = own.odds.at(-1) + other.odds.at(-1), high = own.odds[0] + other.odds[0], held = 0;
  const upTo = own.chance.map((t) => (held += t));
  while (high - low > 1e-6 * (1 + Math.abs(high))) {
    const middle = (low + high) / 2;
    let i = own.odds.length - 1, beyond = 0;
    other.odds.forEach((e, j) => {  // downwards: fewer and fewer of the first are enough
      while (i >= 0 && own.odds[i] + e <= middle) i--;
      beyond += i < 0 ? 0 : other.chance[j] * upTo[i];
    });
    if (beyond > D.delta[1]) low = middle; else high = middle;
  }
  return [average, expit(start + high)];
}
// How often an intruder who starts at one half decides for the truth, from one count of precision p: where its noise is
// 0 or more.
const decided = (p) => 0.5 + 0.5 / theta(1 / p);

// --- what one sees

const $ = (id) => document.getElementById(id);
const say = (x) => (x >= 9.95 || x === 0 ? Math.round(x).toLocaleString("en-US") : x >= 0.95 ? x.toFixed(1) : x.toPrecision(2));
const percent = (x) => (x >= 0.1 ? (100 * x).toFixed(1) : x ? `${Number((100 * x).toPrecision(2))}` : "0");
const upward = (x) => (Math.ceil(x * 100 - 1e-9) / 100).toFixed(2);
const inside = (level) => D.words[level];
const titled = (text) => text[0].toUpperCase() + text.slice(1);
const WORDS = { total: "everybody", votingage: "adults", hispanic: "Hispanic origin", "hispanic * cenrace": "each race and origin",
                cenrace: "each race", "votingage * hispanic * cenrace": "adults of each race and origin" };
const queryWords = (q) => WORDS[D.queries[q].name] ?? D.queries[q].title.toLowerCase();
function element(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value); else out.setAttribute(name, value);
  }
  out.append(...children);
  return out;
}

let state, undone = [], shown = {}, later = 0, turn = 0;
// How much more Gaussian noise an epsilon is computed with: while a control moves, and then.
const COARSE = 1e-3, FINE = 5e-5;
const copy = (s) => ({ rho: s.rho, levels: [...s.levels], queries: s.queries.map((q) => [...q]) });
const written = (s) => [s.rho, s.levels.join("."), ...s.queries.map((q) => q.join("."))].join("_");
function fromText(text) {
  const [rho, levels, ...queries] = text.split("_");
  const whole = (t, n) => { const w = t.split(".").map((x) => BigInt(x)); if (w.length !== n || total(w) <= 0n) throw Error(t); return w; };
  if (!exact(rho) || queries.length !== LEVELS) throw Error(text);
  return { rho, levels: whole(levels, LEVELS), queries: queries.map((q) => whole(q, QUERIES)) };
}
function keep() { const now = written(state); if (undone.at(-1) !== now) undone.push(now); }
function become(next, remember = true) { if (remember) keep(); state = next; show(); }

// The tables of a configuration, as das reads them.
function toml() {
  const [a, b] = exact(state.rho), quoted = (name) => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));
  const lines = (names, weights) => names.map((n, i) => [n, weights[i]]).filter(([, w]) => w)
    .map(([n, w]) => `${quoted(n)} = "${fraction(w, total(weights))}"`);
  const out = [D.toml.budget.replace("[budget]\n", `[budget]\nrho = "${fraction(a, b)}"\n`), "[budget.levels]", ...lines(D.levels, state.levels)];
  const names = D.queries.map((q) => q.name);
  D.levels.forEach((level, l) => { if (state.levels[l]) out.push("", `[budget.queries.${quoted(level)}]`, ...lines(names, state.queries[l])); });
  const rest = D.toml.others.reduce((text, cost, i) => {
    const [c, d] = exact(cost);
    return text.replace(`"@${i}@"`, `"${fraction(c * b, d * a)}"`);
  }, D.toml.rest);
  const last = state.levels[LEVELS - 1] && state.queries[LEVELS - 1][names.indexOf("detailed")];  // full information needs it
  return `${out.join("\n")}\n\n${last ? rest : rest.replace('method = "full-information"', 'method = "topdown"')}${passes()}`;
}

// Passes of the estimation, of what is still measured.
function passes() {
  const lines = Object.entries(D.toml.passes).map(([level, given]) => {
    const l = D.levels.indexOf(level), left = new Set(D.queries.map((q) => q.name).filter((_, k) => l < 0 || state.queries[l][k]));
    const kept = l < 0 ? given : given.map((pass) => pass.filter((n) => n === "*" || left.has(n))).filter((pass) => pass.length);
    kept.flat().forEach((n) => (n === "*" ? left.clear() : left.delete(n)));
    return `${JSON.stringify(level)} = ${JSON.stringify(l >= 0 && left.size ? [...kept, [...left]] : kept)}`;
  });
  return lines.length ? `\n[estimation.passes]\n${lines.join("\n")}\n` : "";
}

// The controls and the table of each level, made once.
const cells = D.levels.map(() => []), bars = [];
function control(label, value, change) {
  const range = element("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": label });
  const number = element("input", { type: "number", min: 0, max: 100, step: "any", "aria-label": `${label}, per cent` });
  range.addEventListener("input", () => { if (!range.held) { keep(); range.held = true; } change((range.value / 1000) ** 2); });
  range.addEventListener("change", () => { range.held = false; });
  number.addEventListener("change", () => { if (number.value !== "") { keep(); change(number.value / 100); } });
  const set = (share) => {
    const at = Math.round(Math.sqrt(share) * 1000);
    if (Number(range.value) !== at && !range.held) range.value = at;
    range.setAttribute("aria-valuetext", `${percent(share)} per cent`);
    if (document.activeElement !== number) number.value = percent(share);
  };
  return [range, number, set];
}
function build() {
  D.levels.forEach((level, l) => {
    const [range, number, set] = control(`Share of the ${inside(l)}`, 0,
      (s) => become({ ...copy(state), levels: moved(state.levels, l, Math.max(s, 1e-4)) }, false));
    bars.push(set);
    const body = element("tbody");
    let group = "";
    D.queries.forEach((q, k) => {
      const [r, n, put] = control(`Share of ${q.title} within the ${inside(l)}`, 0, (s) => {
        const next = copy(state);
        next.queries[l] = moved(next.queries[l], k, s);
        become(next, false);
      });
      const noise = element("td", { "data-noise": "" }), estimate = element("td", { "data-estimate": "", class: "strong" }), note = element("td", { class: "text quiet" });
      const name = q.group !== group && q.group === "crossed" ? "first" : "";
      group = q.group;
      body.append(element("tr", { "data-level": level, "data-query": q.name, class: name },
        element("th", { scope: "row" }, q.title), element("td", { class: "share" }, r), element("td", {}, n), noise, estimate, note));
      cells[l].push({ put, noise, estimate, note });
    });
    const head = ["count of one place", "share of the level", "%", "its own measurement", "all measurements together", ""];
    const caption = element("caption", {}, "Margins of error at 95 %, in persons: of the noise of one answer, and of its estimate from everything that is measured.");
    const size = element("span", { class: "quiet", id: `size-${l}` });
    $("levels").append(element("section", { class: "level" },
      element("h3", {}, titled(inside(l)), " ", size),
      element("p", { class: "one" }, "share of the total ", range, " ", number, " %"),
      element("details", l === LEVELS - 3 ? { open: "" } : {}, element("summary", {}, "Queries and margins"),
        element("div", { class: "scroll" }, element("table", {}, caption,
          element("thead", {}, element("tr", {}, ...head.map((h, i) => element("th", { scope: "col", ...(i ? {} : { class: "text" }) }, h)))), body)))));
  });
  for (const name of Object.keys(PRESETS)) {
    $("presets").append(element("button", { type: "button", onclick: () => become(copy(PRESETS[name])) }, name));
  }
  for (const id of ["goal-level", "goal-query"]) {
    (id === "goal-level" ? D.words.map(titled) : D.queries.map((q) => q.title))
      .forEach((text, i) => $(id).append(element("option", { value: i }, text)));
  }
  const aims = D.words.map((level, l) => [level, D.curve.targets.filter((t) => t[0] === l).map((t) => D.queries[t[1]].title)]).filter((some) => some[1].length);
  $("targets").textContent = `${D.curve.aim} (${aims.map(([level, titles]) => `${level}: ${titles.join(", ")}`).join("; ")})`;
  if (A) {
    $("goal-level").append(element("option", { value: LEVELS }, `${A.kind}: the middle one`));
    [`The middle one of ${A.titles.length}, count by count`, ...A.titles].forEach((text, i) => $("area").append(element("option", { value: i - 1 }, text)));
    $("areas").hidden = false;
    $("area").addEventListener("change", showAreas);
  }
  $("goal-level").value = LEVELS - 3;
  $("goal-query").value = Math.max(0, D.queries.findIndex((q) => q.name === "votingage"));
  for (const r of D.relations.filter((r) => r.says.includes("is another"))) {
    $("secret").append(element("option", { value: r.name }, r.says.split(" of one")[0]));
  }
  const race = [...$("secret").options].find((o) => /race/.test(o.value));
  if (race) $("secret").value = race.value;
}

// Where a place of a level is in the middle: published, or the mean of a number that is typed in.
const sizeOf = (l) => D.median?.[l] ?? (Number($("people").value) > 0 ? Number($("people").value) / UNIT[l] : null);
const WANTED = [["A redistricting analyst", 2, ["total", "votingage", "votingage * hispanic * cenrace"]],
  ["A demographer", 4, ["votingage", "hispanic * cenrace", "hhgq"]],
  ["A town", 3, ["total", "votingage", "hispanic"]],
  ["A small group", 2, ["hispanic * cenrace"]]];
// What each of four readers needs, of the place that ``place`` names for a level, with its variances.
function sentences(place) {
  return WANTED.map(([who, l, names]) => {
    const [name, f] = place(Math.max(0, LEVELS - l)), some = names.map((n) => D.queries.findIndex((q) => q.name === n)).filter((q) => q >= 0);
    const asked = some.length ? some : D.queries.map((_, q) => q).slice(0, 3);
    const margins = asked.map((q) => (f[q] ? `${queryWords(q)} within ±${say(Z * Math.sqrt(f[q]))}` : `${queryWords(q)} exactly`));
    const m = Math.max(1, Math.ceil(Z * Math.sqrt(f[asked[0]])));
    const group = who === "A small group" ? ` So fewer than ${m.toLocaleString("en-US")} of a group there cannot be told from nobody.` : "";
    return [element("dt", {}, who), element("dd", {}, `${name}: ${margins.join(", ")}.${group}`)];
  }).flat();
}
const levelPlace = (f) => (l) => [titled(inside(l)) + (sizeOf(l) ? ` of ${Math.round(sizeOf(l)).toLocaleString("en-US")}` : ""), f[l]];
// Of areas the middle one, by each count: its variances; and the widest.
const ofAreas = (v, part) => D.queries.map((_, q) => v.map((f) => f[q]).sort((a, b) => a - b)[Math.floor((v.length - 1) * part)]);
function showAreas() {
  const v = (shown.areas ??= areaVariances(shown.plan)), at = Number($("area").value), f = at < 0 ? ofAreas(v, 0.5) : v[at], most = ofAreas(v, 1);
  $("area-sentences").replaceChildren(...sentences(() => [at < 0 ? `${titled(A.kind)}, the middle one` : A.titles[at], f]));
  const cell = (x) => element("td", { "data-margin": Z * Math.sqrt(x) }, x ? `±${say(Z * Math.sqrt(x))}` : "exact");
  $("area-margins").replaceChildren(...D.queries.map((q, i) => element("tr", { "data-area-query": q.name },
    element("th", { scope: "row" }, q.title), cell(f[i]), cell(most[i]))));
}
function show() {
  const plan = planOf(state), c = inverses(plan), f = c && variances(c), w = c && worth(c, f, plan);
  shown = { plan, f };
  D.levels.forEach((_, l) => {
    bars[l](plan.levels[l] / plan.rho);
    const size = sizeOf(l);
    $(`size-${l}`).textContent = `${UNIT[l].toLocaleString("en-US")} ${UNIT[l] === 1 ? "unit" : "units"}${size ? `, ${D.median ? "half of them below" : "on average"} ${Math.round(size).toLocaleString("en-US")} persons` : ""}`;
    D.queries.forEach((q, k) => {
      const cell = cells[l][k], p = plan.each[l][k], margin = c && Z * Math.sqrt(f[l][k]);
      cell.put(plan.queries[l][k]);
      const noise = p ? noiseMargin(1 / (EACH * p)) : null;
      cell.noise.textContent = noise === null ? "not measured" : `±${say(noise)}`;
      cell.noise.dataset.noise = noise ?? "";
      cell.estimate.textContent = !c ? "–" : margin ? `±${say(margin)}` : "exact";
      cell.estimate.dataset.estimate = margin ?? "";
      const part = c && size && q.name === "total" && margin ? ` (${percent(margin / size)} % of ${Math.round(size).toLocaleString("en-US")})` : "";
      cell.note.textContent = p && c && w[l][k] < 1e-7 ? "adds nothing" : part;
    });
  });
  $("untold").hidden = Boolean(c);
  const [a, b] = exact(state.rho);
  wrong("rho", "");
  if (document.activeElement !== $("rho")) $("rho").value = b === 1n ? `${a}` : Number(plan.rho.toPrecision(7));
  if (!$("total").held) $("total").value = Math.round(Math.log10(plan.rho) * 100);
  told(epsilon(D.relations[0], plan, COARSE));
  if (c) $("sentences").replaceChildren(...sentences(levelPlace(f)));
  $("undo").disabled = !undone.length;
  history.replaceState(null, "", `#${written(state)}`);
  clearTimeout(later);
  turn++;
  later = setTimeout(showPrivacy, 60);
}

// What takes longer, once the controls rest, step by step so that they stay free: other relations, the intruder, the
// curve.
function showPrivacy() {
  const { plan, f } = shown, found = {}, body = $("relations"), mine = ++turn;
  const steps = D.relations.map((r, i) => () => {
    const own = epsilon(r, plan, FINE);
    const e = i && D.sensitivity === 2 ? Math.min(own, found.guarantee) : own;  // part of a replacement costs no more
    found[r.name] = e;
    if (!i) told(e);
    const row = body.children[i] ?? body.appendChild(element("tr", { "data-relation": r.name },
      element("th", { scope: "row" }, titled(r.says)), element("td")));
    row.dataset.epsilon = e;
    row.lastChild.textContent = upward(e);
  });
  if (A && f) steps.unshift(showAreas);
  steps.push(() => showRisk(found), () => { if (f) showCurve(f); }, () => {
    $("toml").value = toml();
    document.body.dataset.settled = written(state);
  });
  const next = () => {
    if (mine !== turn || !steps.length) return;
    steps.shift()();
    later = setTimeout(next);
  };
  next();
}
function told(e) {
  $("epsilon").textContent = upward(e);
  $("epsilon").dataset.epsilon = e;
  $("total").setAttribute("aria-valuetext", `epsilon ${upward(e)}`);
}
const after = (odds, prior) => prior / (prior + (1 - prior) * Math.exp(-odds));
function showRisk(found) {
  const { plan } = shown, prior = Number($("prior").value), name = $("secret").value;
  const relation = D.relations.find((r) => r.name === name), draws = drawsOf(relation, plan);
  const average = Math.max(...D.paths.map((path) => believed(path.flatMap((k) => draws[k].flatMap((p) => [p, p])), prior)));
  // P[L > t] <= delta(e) / (1 - exp(e - t)) for every e < t
  const part = found[name] / (found[name] - 2 * Math.log(D.delta[1]));
  const worst = after(part && epsilon(relation, plan, FINE, part * D.delta[1]) - Math.log(1 - part), prior);
  const most = (x) => (x > 0.999 ? "nearly certain" : `at ${Math.ceil(x * 1e3) / 10} %`);
  const chance = (x) => (x > 0.9995 ? `${(Math.floor(x * 1e6) / 1e4).toFixed(4)}` : (100 * x).toFixed(1));
  const attribute = $("secret").selectedOptions[0].textContent.toLowerCase();
  const finest = D.queries.reduce((best, q, i) => (q.answers >= D.queries[best].answers && plan.each[LEVELS - 1][i] ? i : best), 0);
  const one = EACH * plan.each[LEVELS - 1][finest], each = [];
  let up = null;  // the next level that is measured with it, and so on up to one that is measured without it
  for (let l = LEVELS - 1; l >= 0; l--) {
    if (plan.each[l][finest]) {
      each.push(EACH * plan.each[l][finest]);
      if (l < LEVELS - 1) up ??= l;
    } else if (sum(plan.each[l])) break;
  }
  const ladder = believed(each, prior), chanceOf = one ? decided(one) : 0.5, rare = (1 / D.delta[1]).toLocaleString("en-US");
  const [alone, aloneMost] = one ? twoLevels(one, null, prior) : [prior, prior];
  const others = up === null ? 0 : Math.max(1, Math.floor(LAST / UNIT[up]) - 1);
  const [both, bothMost] = one && up !== null ? twoLevels(one, above(EACH * plan.each[up][finest], one / others), prior) : [alone, aloneMost];
  // on the optimized spine, only children have more budget
  const several = D.classes.filter(([l]) => l === LEVELS - 1).length > 1 && LEVELS > 1 ? `, not the only one of its ${inside(LEVELS - 2)}` : "";
  const low = inside(LEVELS - 1), told = D.queries[finest].title.toLowerCase();
  const rows = [
    ["all", average, worst, `An intruder who knows everything but the ${attribute} of one person, sees every noisy answer and starts at ${chance(prior)} %, ends on average at ${chance(average)} %, at worst ${most(worst)}.`],
    ["alone", alone, aloneMost, `If the intruder looks at one noisy count of the ${low}${several} (“${told}”), this ends on average at ${chance(alone)} %, at worst ${most(aloneMost)}.`]];
  if (up !== null && one) rows.push(["hierarchy", both, bothMost, `With the counts of the ${inside(up)} and of its other places, too, it ends on average at ${chance(both)} %, at worst ${most(bothMost)} (Kazan and Reiter’s two levels, with ${others.toLocaleString("en-US")} other places).`]);
  rows.push(["ladder", ladder, null, `A person who is alone with that in the ${low} and in all places above ends on average at ${chance(ladder)} %, from ${each.length} counts.`],
    ["decided", chanceOf, null, `Of 100 people who are alone in their ${low} with that, ${say(100 * chanceOf)} would be guessed right; without any release, 50.`]);
  const lone = D.alone?.[D.queries[finest].name];
  if (lone !== undefined) {
    rows.push(["persons", lone * chanceOf, null, `In the run ${lone.toLocaleString("en-US")} people are alone in their ${low} with that: ${Math.round(lone * chanceOf).toLocaleString("en-US")} would be guessed right; without any release, ${Math.round(lone / 2).toLocaleString("en-US")}.`]);
  }
  $("risk").replaceChildren(...rows.map(([id, value, high, text]) => element("li", { "data-risk": id, "data-value": value, "data-worst": high ?? "" }, text)));
  $("rare").textContent = `“At worst” is exceeded in at most one case of ${rare}.`;
}
function showCurve(f) {
  const own = planOf(Object.values(PRESETS)[0]), before = variances(inverses(own)), plan = shown.plan;
  const asked = D.curve.targets.filter(([l, q]) => before[l][q] > 0), weight = sum(asked.map((t) => t[2]));
  const change = sum(asked.map(([l, q, w]) => w * Math.log(f[l][q] / before[l][q]))) / weight;
  const best = Math.log(D.curve.value) + Math.log(own.rho / plan.rho), gap = Math.exp((change - best) / 2);
  const points = [-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3].map((k) => {
    const e = k ? epsilon(D.relations[0], planOf(state, plan.rho * 2 ** k), 4e-3) : Number($("epsilon").dataset.epsilon);
    return [e, Math.exp((change - k * Math.LN2) / 2), Math.exp((best - k * Math.LN2) / 2), k];
  });
  const W = 640, H = 300, left = 56, low = 40, edge = points.at(-1)[0], most = points[0][1];
  const x = (e) => left + (W - left - 10) * e / edge, yOf = (v) => 10 + (H - low - 10) * (1 - Math.log(v / points.at(-1)[2]) / Math.log(most / points.at(-1)[2]));
  const line = (i) => points.map((p) => `${x(p[0]).toFixed(1)},${yOf(p[i]).toFixed(1)}`).join(" ");
  const here = points.find((p) => !p[3]), ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].filter((t) => t < most && t > points.at(-1)[2]);
  $("curve").innerHTML = `<svg viewBox="0 0 ${W} ${H}" role="img" aria-labelledby="curve-says">${ticks.map((t) => `<path class="grid" d="M${left} ${yOf(t).toFixed(1)}H${W}"/><text x="${left - 6}" y="${(yOf(t) + 4).toFixed(1)}" text-anchor="end">${t} ×</text>`).join("")}${[0.25, 0.5, 0.75, 1].map((t) => `<text x="${x(t * edge).toFixed(1)}" y="${H - 20}" text-anchor="${t === 1 ? "end" : "middle"}">${(t * edge).toPrecision(2)}</text>`).join("")}<text x="${W / 2}" y="${H - 4}" text-anchor="middle">epsilon: less privacy to the right</text><polyline class="best" points="${line(2)}"/><polyline class="present" points="${line(1)}"/><circle cx="${x(here[0]).toFixed(1)}" cy="${yOf(here[1]).toFixed(1)}" r="6"/></svg>`;
  $("curve-says").textContent = `Typical margin of ${asked.length === 1 ? "the target" : `the ${asked.length} targets`} of ${D.curve.aim}, in multiples of this configuration’s: ${Math.exp(change / 2).toPrecision(3)}. The best shares of the same total have margins ${gap > 1.0005 ? `${((1 - 1 / gap) * 100).toPrecision(2)} % narrower` : "no narrower"}, and no shares are more than ${((1 - Math.sqrt(D.curve.bound / D.curve.value)) * 100).toPrecision(1)} % better than those (dashed).`;
  $("curve-says").dataset.change = Math.exp(change);
  $("curve-says").dataset.gap = gap;
}

// The totals that the slider has.
const LEAST = 10 ** ($("total").min / 100), MOST = 10 ** ($("total").max / 100);
function wrong(id, says) {
  $(id).setAttribute("aria-invalid", String(says !== ""));
  $(`${id}-wrong`).textContent = says;
}
function start() {
  build();
  try { state = fromText(decodeURIComponent(location.hash.slice(1))); } catch { state = copy(Object.values(PRESETS)[0]); }
  $("total").addEventListener("input", () => {
    if (!$("total").held) { keep(); $("total").held = true; }
    become({ ...copy(state), rho: String(Number((10 ** ($("total").value / 100)).toPrecision(3))) }, false);
  });
  $("total").addEventListener("change", () => { $("total").held = false; });
  $("rho").addEventListener("change", () => {
    const good = exact($("rho").value), within = good && near(good) >= LEAST && near(good) <= MOST;
    if (within) become({ ...copy(state), rho: $("rho").value.trim() });
    wrong("rho", within ? "" : `Give a number above 0, with a point, from ${LEAST} to ${MOST}. Epsilon is still that of ${state.rho}.`);
  });
  // Variances are inverse to the total, so that the search needs one step.
  $("goal").addEventListener("submit", (event) => {
    event.preventDefault();
    const margin = Number($("goal-margin").value), says = $("goal-says");
    says.textContent = "";
    wrong("goal-margin", margin > 0 && margin < Infinity ? "" : "Give a number above 0, with a point.");
    if (!(margin > 0 && margin < Infinity)) return;
    const now = shown.f && Z * Math.sqrt((shown.f[$("goal-level").value] ?? ofAreas(shown.areas ??= areaVariances(shown.plan), 0.5))[$("goal-query").value]);
    if (!now) { says.textContent = shown.f ? "That count is exact." : "No total is enough: these shares do not tell all cells apart."; return; }
    const rho = shown.plan.rho * (now / margin) ** 2, digits = 10 ** (Math.floor(Math.log10(rho)) - 5), end = rho > MOST ? MOST : LEAST;
    if (rho > MOST || rho < LEAST) {
      says.textContent = `With these shares that needs rho = ${Number(rho.toPrecision(3))}. The page knows totals from ${LEAST} to ${MOST}: at ${end} the margin is ±${say(now * Math.sqrt(shown.plan.rho / end))}.`;
      return;
    }
    become({ ...copy(state), rho: String(Number((Math.ceil(rho / digits) * digits).toPrecision(6))) });
    says.textContent = `With these shares the least total is rho = ${state.rho}, epsilon = ${upward(epsilon(D.relations[0], shown.plan, FINE))}.`;
  });
  $("undo").addEventListener("click", () => { state = fromText(undone.pop()); show(); });
  const copied = (button, text) => async () => {
    try { await navigator.clipboard.writeText(text()); } catch { $("toml").value = text(); $("toml").closest("details").open = true; $("toml").select(); document.execCommand("copy"); }
    $("copied").textContent = `${button} copied.`;
  };
  $("link").addEventListener("click", copied("Link", () => location.href));
  $("copy").addEventListener("click", copied("Configuration", toml));
  for (const id of ["prior", "secret", "people"]) $(id).addEventListener("change", show);
  addEventListener("hashchange", () => { try { const next = fromText(decodeURIComponent(location.hash.slice(1))); if (written(next) !== written(state)) become(next); } catch { /* not a state */ } });
  show();
}
start();
})();
