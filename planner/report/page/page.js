
drawTitle();
drawFigures();
drawTimes();
drawWho();
drawTimeline();
drawStrategies();
drawDomains();
explainTerms();
document.documentElement.dataset.ready = 'true';
