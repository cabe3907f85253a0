// Runs before the first paint, so that the page does not flash in the other theme.
"use strict";
const theme = localStorage.getItem("ruslo-theme");
if (theme) document.documentElement.dataset.theme = theme;
