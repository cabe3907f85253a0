// Runs before the page is painted, so that a chosen theme does not flash.
"use strict";
const theme = localStorage.getItem("ruslo-theme");
if (theme) document.documentElement.dataset.theme = theme;
