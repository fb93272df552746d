// Within the page: what a reader would see, told to the page around it.
addEventListener('load', () => {
  const root = document.documentElement;
  const widest = () => Math.max(root.scrollWidth, document.body.scrollWidth);
  const closed = widest();
  const charts = [...document.querySelectorAll('figure')].map(figure => {
    const shown = [...figure.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0);
    const box = shown[0] ? shown[0].getBoundingClientRect() : { width: 0, height: 0 };
    const smallest = shown[0] ? Math.min(...[...shown[0].querySelectorAll('text')].map(text => text.getBoundingClientRect().height)) : 0;
    return { id: figure.id, shown: shown.length, width: box.width, height: box.height, smallest };
  });
  document.querySelectorAll('details').forEach(details => { details.open = true; });
  parent.postMessage(JSON.stringify({
    name: window.name,
    width: innerWidth,
    closed,
    opened: widest(),
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    ground: getComputedStyle(root).getPropertyValue('--ground').trim(),
    requests: performance.getEntriesByType('resource').length,
    charts,
    overlaps: overlaps(),
    text: document.body.innerText,
  }), '*');
});

// Texts of one picture that lie on each other.
function overlaps() {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    if (svg.getBoundingClientRect().width === 0) continue;
    const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
    const frame = svg.getBoundingClientRect();
    texts.forEach(([a, p], i) => {
      if (p.left < frame.left - 1 || p.right > frame.right + 1) found.push(`${a} leaves its picture`);
      texts.slice(i + 1).forEach(([b, q]) => {
        const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        // Boxes have some air above and below their letters.
        if (across > 1 && down > 3) found.push(`${a} and ${b}`);
      });
    });
  }
  return found;
}
