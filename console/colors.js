// Colors of the page, which follow the reader's choice of dark or light.

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
