"""Planning: conversion of an expression graph to kernels and other plan steps."""
