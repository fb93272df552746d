// Within the page: what a reader would see, told to the page around it.
addEventListener('load', () => {
  const root = document.documentElement;
  const widest = () => Math.max(root.scrollWidth, document.body.scrollWidth);
  const drawn = [...document.querySelectorAll('td.marks svg')].map(svg => {
    const box = svg.getBoundingClientRect();
    return { width: box.width, height: box.height, marks: svg.querySelectorAll('circle').length };
  });
  parent.postMessage(JSON.stringify({
    name: window.name,
    width: innerWidth,
    widest: widest(),
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    ground: getComputedStyle(root).getPropertyValue('--ground').trim(),
    requests: performance.getEntriesByType('resource').length,
    drawn,
    cut: cut(),
    overlaps: overlaps(),
    text: document.body.innerText,
  }), '*');
});

// Names and figures whose cell is too small for them.
function cut() {
  const cells = [...document.querySelectorAll('table.drawn th, table.drawn td')];
  return cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1 && !cell.querySelector('svg')).map(cell => cell.textContent);
}

// Texts that lie on each other: labels of one axis, and neighbours in a row.
function overlaps() {
  const found = [];
  const look = texts => texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    // Boxes have some air above and below their letters.
    if (across > 1 && down > 3) found.push(`${a} and ${b}`);
  }));
  const boxes = nodes => [...nodes].map(node => [node.textContent, node.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  document.querySelectorAll('th.marks svg').forEach(svg => look(boxes(svg.querySelectorAll('text'))));
  document.querySelectorAll('table.drawn tr').forEach(row => look(boxes(row.children)));
  return found;
}
