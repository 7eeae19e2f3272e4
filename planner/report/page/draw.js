
// ---- drawing: shapes only, stretched over their box; colours come from the style sheet ----
const shape = (width, height, children, attributes = {}) => element('svg', { viewBox: `0 0 ${width} ${height}`,
  preserveAspectRatio: 'none', 'aria-hidden': 'true', children, ...attributes });

// Steps of 1, 2 or 5 times a power of ten, about `wanted` of them up to `most`.
function niceStep(most, wanted) {
  const power = 10 ** Math.floor(Math.log10(most / wanted));
  return power * [1, 2, 5, 10].find(by => by * power * wanted >= most * 0.999);
}

// Calls move(rows, columns) for arrow keys and at(event) for pointers over `box`.
function readBy(box, move, at) {
  const keys = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  box.addEventListener('keydown', event => {
    if (!keys[event.key]) return;
    event.preventDefault();
    move(...keys[event.key]);
  });
  box.addEventListener('pointermove', at);
  box.addEventListener('pointerdown', at);
}
const clamp = (x, least, most) => Math.min(Math.max(x, least), most);
