// SPDX-License-Identifier: Apache-2.0
#include "core/page/line_chart.h"

namespace llmtrain {

// Smoothing is TensorBoard's: an exponential moving average without the bias of its start. Few points, which are marked
// one by one, and exact values stay. A scale is logarithmic on request where all that is drawn is positive. A page that
// the browser loads again while a run goes on keeps what was chosen.
const MarkupLiteral chart_controls_script = R"js(
(() => {
  const charts = [...document.querySelectorAll(".charts svg.chart")];
  if (!charts.length) return;
  const [width, height] = [488, 190];
  const pairs_of = (d) => [...d.matchAll(/([ML])([-\d.]+) ([-\d.]+)/g)].map((m) => [m[1], +m[2], +m[3]]);
  const path_of = (pairs) => pairs.map(([letter, x, y]) => letter + x + " " + y.toFixed(2)).join("");
  // What the page came with, as values: a change of the scale or of the smoothing begins from it.
  const drawings = charts.map((svg) => {
    const first = Object.fromEntries(["y0", "y1", "log", "unit"].map((key) => [key, +svg.dataset[key]]));
    const value_at = (y) => {
      const value = first.y1 - y / height * (first.y1 - first.y0);
      return first.log ? 10 ** value : value;
    };
    const shapes = (name) => [...svg.querySelectorAll(name)];
    const values_of = (name) => shapes(name).map((path) => [path, pairs_of(path.getAttribute("d"))
      .map(([letter, x, y]) => [letter, x, value_at(y)])]);
    const [lines, bands] = [values_of(".line"), values_of(".band")];
    const limit = shapes(".limit").map((path) => value_at(parseFloat(path.getAttribute("d").split(" ")[1])));
    const values = [...[...lines, ...bands].flatMap(([, pairs]) => pairs.map((pair) => pair[2])), ...limit];
    const axis = svg.querySelector(".y-axis");
    return { svg, first, lines, bands, limit, values, axis, axis_text: axis.innerHTML };
  });
  const ticks_of = (low, high) => {
    const ticks = [];
    for (let power = Math.floor(low); high >= power; ++power)
      for (const digit of high - low > 2.5 ? [1] : [1, 2, 5]) ticks.push(digit * 10 ** power);
    const within = ticks.filter((tick) => Math.log10(tick) >= low && high >= Math.log10(tick));
    return within.length > 1 ? within : [0, 1, 2, 3].map((i) => 10 ** (low + (i + 0.5) / 4 * (high - low)));
  };
  const smoothed = (pairs, weight) => {
    let sum = 0, share = 0;
    return pairs.map(([letter, x, value]) => {
      sum = weight * sum + (1 - weight) * value;
      share = weight * share + 1 - weight;
      return [letter, x, sum / share];
    });
  };
  const draw = (drawing, weight, wants_log) => {
    const { svg, first, lines, bands, limit, values, axis, axis_text } = drawing;
    const is_changed = wants_log && !first.log && values.every((value) => value > 0);
    let [low, high] = [first.y0, first.y1];
    if (is_changed) {
      [low, high] = [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))];
      const margin = 0.04 * (high - low || 1);
      [low, high] = [low - margin, high + margin];
    }
    const is_log = is_changed || first.log;
    const y_of = (value) => height * (high - (is_log ? Math.log10(value) : value)) / (high - low);
    const drawn = (pairs) => path_of(pairs.map(([letter, x, value]) => [letter, x, y_of(value)]));
    Object.assign(svg.dataset, { y0: low, y1: high, log: is_log ? 1 : 0 });
    for (const raw of svg.querySelectorAll(".raw")) raw.remove();
    for (const [path, pairs] of lines) {
      const dots = [...svg.querySelectorAll("circle")].filter((dot) => dot.dataset.of === path.dataset.name);
      dots.forEach((dot, i) => dot.setAttribute("cy", y_of(pairs[i][2])));
      const is_smoothed = weight > 0 && !dots.length && svg.parentElement.dataset.exact === "0";
      path.setAttribute("d", drawn(is_smoothed ? smoothed(pairs, weight) : pairs));
      if (!is_smoothed) continue;
      const raw = path.cloneNode();
      raw.setAttribute("class", "raw");
      raw.setAttribute("d", drawn(pairs));
      path.before(raw);
    }
    for (const [path, pairs] of bands) path.setAttribute("d", drawn(pairs) + "Z");
    for (const value of limit) {
      svg.querySelector(".limit").setAttribute("d", "M0 " + y_of(value).toFixed(2) + "H" + width);
      svg.querySelector(".limit-name").setAttribute("y", y_of(value) > 16 ? y_of(value) - 5 : y_of(value) + 13);
    }
    axis.innerHTML = !is_changed ? axis_text : ticks_of(low, high).map((value) =>
      `<path class="grid" d="M0 ${y_of(value)}H${width}"/><text class="name" x="-6" y="${y_of(value) + 4}">` +
      `${words_of_unit[first.unit](value)}</text>`).join("");
  };
  const place = document.createElement("p");
  place.className = "controls";
  place.innerHTML = `<label>Smoothing<input type="range" min="0" max="0.99" step="0.01" value="0"><output>0</output>` +
    `</label><label><input type="checkbox">Logarithmic axes</label>`;
  document.querySelector(".charts").before(place);
  const [smoothing, logarithmic] = place.querySelectorAll("input");
  const stored = (write) => {
    try { return write ? sessionStorage.setItem("charts", write) : sessionStorage.getItem("charts"); } catch { return null; }
  };
  const redraw = () => {
    place.querySelector("output").textContent = smoothing.value;
    for (const drawing of drawings) draw(drawing, +smoothing.value, logarithmic.checked);
    stored(smoothing.value + " " + (logarithmic.checked ? 1 : 0));
  };
  place.addEventListener("input", redraw);
  const [weight, log] = (stored() || "0 0").split(" ");
  [smoothing.value, logarithmic.checked] = [weight, log === "1"];
  if (stored() && stored() !== "0 0") redraw();
})();
)js";

}  // namespace llmtrain
